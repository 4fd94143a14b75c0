"""Rules for onnxruntime's fused operators of the domain com.microsoft."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, find_onnx_rule, onnx_rule
from relax_mlir.dialects.relax.activation import (
    GeluOp,
    GeluTanhOp,
    HardSigmoidOp,
    SigmoidOp,
    SiluOp,
)
from relax_mlir.dialects.relax.arithmetic import AddOp, ClipOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import EqualOp
from relax_mlir.dialects.relax.exp_log import SqrtOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.layer_norm import LayerNormOp, RmsNormOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.reduce import MeanOp, SumOp
from relax_mlir.dialects.relax.relu import LeakyreluOp, ReluOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.relax.trigonometry import TanhOp
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.node_form import (
    check_inputs_and_attributes,
    input_shape,
    require_input_shape,
)
from relax_mlir.frontends.onnx.norm import inverse_rms
from relax_mlir.frontends.onnx.scores import check_choice, scalar_like

_F32, _INT32 = dtypes.dtype("float32"), dtypes.dtype("int32")
_TINY = 1e-12  # default epsilon


@onnx_rule("com.microsoft::Gelu", since=1)
def gelu(node: OnnxNode) -> ir.Value:
    """Exact GELU: x times the standard normal CDF of x.

    Source: onnxruntime, com.microsoft Gelu-1.
    """
    check_inputs_and_attributes(node, 1)
    return GeluOp(node.input(0)).y


@onnx_rule("com.microsoft::BiasGelu", since=1)
def bias_gelu(node: OnnxNode) -> ir.Value:
    """GELU of x plus a bias.

    Source: onnxruntime, com.microsoft BiasGelu-1.
    """
    check_inputs_and_attributes(node, 2)
    return GeluOp(_biased_input(node, 1)).y


@onnx_rule("com.microsoft::CDist", since=1)
def cdist(node: OnnxNode) -> ir.Value:
    """Pairwise Euclidean distances, or their squares, of rows [n, k] and [m, k]: [n, m].

    Source: onnxruntime, com.microsoft CDist-1.
    """
    check_inputs_and_attributes(node, 2, "metric")
    metric = check_choice(
        "metric", node.attr("metric", "sqeuclidean"), ("euclidean", "sqeuclidean")
    )
    n, k = input_shape(node, 0, "n", "k")
    input_shape(node, 1, "m", "k")
    one = ReshapeOp(node.input(0), shape=(n, 1, k)).y
    difference = SubtractOp(one, node.input(1)).z
    total = SumOp(MultiplyOp(difference, difference).z, axis=(2,), keepdims=False).y
    return SqrtOp(total).y if metric == "euclidean" else total


@onnx_rule("com.microsoft::FastGelu", since=1)
def fast_gelu(node: OnnxNode) -> ir.Value:
    """GELU by the tanh approximation, of x plus an optional bias.

    Source: onnxruntime, com.microsoft FastGelu-1.
    """
    check_inputs_and_attributes(node, 2)
    return GeluTanhOp(_biased_input(node, 1)).y


@onnx_rule("com.microsoft::QuickGelu", since=1)
def quick_gelu(node: OnnxNode) -> ir.Value:
    """Sigmoid approximation of GELU: x * sigmoid(alpha * x).

    Source: onnxruntime, com.microsoft QuickGelu-1.
    """
    check_inputs_and_attributes(node, 1, "alpha")
    x, alpha = node.input(0), node.attr("alpha", 1.702)
    if alpha == 1:
        return SiluOp(x).y
    return MultiplyOp(x, SigmoidOp(MultiplyOp(x, scalar_like(node, alpha, x)).z).y).z


def _add_optional(x: ir.Value, bias: ir.Value | None) -> ir.Value:
    return x if bias is None else AddOp(x, bias).z


def _biased_input(node: OnnxNode, index: int) -> ir.Value:
    """The first input plus an optional bias along its last axis."""
    x = node.input(0)
    if node.optional(index) is not None:
        require_input_shape(node, index, tensors.shape_of(x)[-1:])
    return _add_optional(x, node.optional(index))


def _skip_sum(node: OnnxNode, bias: int) -> ir.Value:
    """The sum of a tensor, a skip connection and an optional bias.

    Args:
        node: has them as inputs 0, 1 and ``bias``.
        bias: the index of the bias.

    Raises:
        ValueError: a shape is wrong, or epsilon is negative.
    """
    for index in range(2):
        rank = len(tensors.shape_of(node.input(index)))
        if rank not in (2, 3):
            raise ValueError(f"input {index}: expected rank 2 or 3, got {rank}")
    if node.attr("epsilon", _TINY) < 0:
        raise ValueError("attribute `epsilon`: expected 0 or more")
    return _add_optional(_biased_input(node, bias), node.input(1))


@onnx_rule("com.microsoft::SkipLayerNormalization", since=1)
def skip_layer_normalization(node: OnnxNode) -> list[ir.Value | None]:
    """Layer normalization of a skip sum; also returns the sum.

    Source: onnxruntime, com.microsoft SkipLayerNormalization-1.
    """
    check_inputs_and_attributes(node, 5, "epsilon")
    total = _skip_sum(node, 4)
    y, *statistics = _normalized(node, total, node.optional(3))
    return [y, *statistics, total]


def _normalized(
    node: OnnxNode, x: ir.Value, beta: ir.Value | None
) -> list[ir.Value | None]:
    """Layer normalization along the last axis; mean and inverse deviation if used."""
    gamma, epsilon = node.input(2), node.attr("epsilon", _TINY)
    if beta is None:
        beta = scalar_like(node, 0, gamma)
    y = LayerNormOp(x, gamma, beta, axes=(-1,), epsilon=epsilon).y
    if not any(node.wanted[1:3]):
        return [y, None, None]
    last = (len(tensors.shape_of(x)) - 1,)
    wide = AstypeOp(x, dtype=_F32).y
    mean = MeanOp(wide, axis=last, keepdims=True).y
    centred = SubtractOp(wide, mean).z
    return [y, mean, inverse_rms(node, centred, last, epsilon)]


@onnx_rule("com.microsoft::SkipSimplifiedLayerNormalization", since=1)
def skip_simplified_layer_normalization(node: OnnxNode) -> list[ir.Value | None]:
    """RMS normalization of a skip sum; also returns the sum.

    Source: onnxruntime, com.microsoft SkipSimplifiedLayerNormalization-1.
    """
    check_inputs_and_attributes(node, 4, "epsilon")
    total = _skip_sum(node, 3)
    epsilon = node.attr("epsilon", _TINY)
    y = RmsNormOp(total, node.input(2), axes=(-1,), epsilon=epsilon).y
    is_wanted = any(node.wanted[2:3])
    last = (len(tensors.shape_of(total)) - 1,)
    inverse = inverse_rms(node, total, last, epsilon) if is_wanted else None
    return [y, None, inverse, total]


@onnx_rule("SimplifiedLayerNormalization", since=1)
@onnx_rule("com.microsoft::SimplifiedLayerNormalization", since=1)
def simplified_layer_normalization(node: OnnxNode) -> list[ir.Value | None]:
    """RMS normalization over the last axes.

    Source: onnxruntime, SimplifiedLayerNormalization-1.
    """
    check_inputs_and_attributes(node, 2, "axis", "epsilon", "stash_type")
    x, epsilon = node.input(0), node.attr("epsilon", 1e-5)
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(node.attr("axis", -1), rank), rank)
    y = RmsNormOp(x, node.input(1), axes=axes, epsilon=epsilon).y
    if not any(node.wanted[1:]):
        return [y]
    return [y, inverse_rms(node, x, axes, epsilon)]


@onnx_rule("com.microsoft::FusedMatMul", since=1)
@onnx_rule("com.microsoft::TransposeMatMul", since=1)
def fused_matmul(node: OnnxNode) -> ir.Value:
    """Matmul alpha * A' @ B', where A' is A or its transpose, and B' likewise.

    Source: onnxruntime, com.microsoft FusedMatMul-1.
    """
    flags = [f"trans{batch}{side}" for batch in ("", "Batch") for side in "AB"]
    check_inputs_and_attributes(node, 2, "alpha", *flags)
    sides = [_transposed(node, index, side) for index, side in enumerate("AB")]
    z, alpha = MatmulOp(*sides).z, node.attr("alpha", 1.0)
    if alpha == 1:
        return z
    return MultiplyOp(z, scalar_like(node, alpha, z)).z


def _transposed(node: OnnxNode, index: int, side: str) -> ir.Value:
    """An operand with its axes permuted by its two transpose attributes."""
    x = node.input(index)
    axes = list(range(len(tensors.shape_of(x))))
    if len(axes) < 2:
        return x
    if node.flag(f"transBatch{side}", default=False):
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if node.flag(f"trans{side}", default=False):
        axes[-2:] = axes[:-3:-1]
    return x if axes == sorted(axes) else PermuteDimsOp(x, axes=axes).y


_ACTIVATIONS: Mapping[str, tuple[Callable[..., Any], int]] = {
    "Relu": (lambda x: ReluOp(x).y, 0),
    "Tanh": (lambda x: TanhOp(x).y, 0),
    "Sigmoid": (lambda x: SigmoidOp(x).y, 0),
    "LeakyRelu": (lambda x, a=0.01: LeakyreluOp(x, alpha=a).y, 1),
    "Clip": (lambda x, low, high: ClipOp(x, min=low, max=high).y, 2),
    "HardSigmoid": (lambda x, a=0.2, b=0.5: HardSigmoidOp(x, alpha=a, beta=b).y, 2),
}


def _activated(x: ir.Value, name: str, params: Sequence[float]) -> ir.Value:
    """An activation function by name.

    Raises:
        NotImplementedError: the name is unknown.
        ValueError: the number of parameters is wrong.
    """
    if name not in _ACTIVATIONS:
        raise NotImplementedError(
            f"attribute `activation`: expected one of {', '.join(_ACTIVATIONS)}, got "
            f"{name!r}"
        )
    function, count = _ACTIVATIONS[name]
    if len(params) > count or (name == "Clip" and len(params) < count):
        raise ValueError(
            f"{name}: expected {count} activation_params, got {len(params)}"
        )
    return function(x, *params)


@onnx_rule("com.microsoft::FusedConv", since=1)
def fused_conv(node: OnnxNode) -> ir.Value:
    """Convolution with bias, optional residual and activation.

    Source: onnxruntime, com.microsoft FusedConv-1.
    """
    convolution = find_onnx_rule("Conv", 11)
    assert convolution is not None
    y = _add_optional(convolution(node), node.optional(3))
    name = node.attrs.get("activation", "")
    return _activated(y, name, node.attrs.get("activation_params", [])) if name else y


@onnx_rule("com.microsoft::EmbedLayerNormalization", since=1)
def embed_layer_normalization(node: OnnxNode) -> list[ir.Value | None]:
    """Layer normalization of the sum of word, position and segment embeddings.

    Source: onnxruntime, com.microsoft EmbedLayerNormalization-1.
    """
    check_inputs_and_attributes(node, 9, "epsilon", "mask_index_type")
    ids, segments = node.input(0), node.optional(1)
    shape = tensors.shape_of(ids)
    if len(shape) != 2:
        raise ValueError(f"input 0: expected [batch, sequence], got rank {len(shape)}")

    def look_up(index: int, indices: ir.Value, operand: str) -> ir.Value:
        table = node.input(index)
        rows = checked_indices(node, indices, operand, tensors.shape_of(table)[0])
        return TakeOp(table, rows, axis=0).y

    total = look_up(2, ids, "input_ids")
    positions = node.optional(8)
    if positions is None:
        end = (shape[1],)
        rows = StridedSliceOp(node.input(3), axes=(0,), begin=(0,), end=end).y
    else:
        rows = look_up(3, positions, "position_ids")
    total = AddOp(total, rows).z
    if segments is not None:
        total = AddOp(total, look_up(4, segments, "segment_ids")).z
    epsilon = node.attr("epsilon", _TINY)
    y = LayerNormOp(total, node.input(5), node.input(6), axes=(-1,), epsilon=epsilon).y
    return [y, _lengths(node, shape[0]), total]


def _lengths(node: OnnxNode, batch: Any) -> ir.Value:  # Any: a size
    """The number of unmasked words per sequence; 0 without a mask."""
    mask = node.optional(7)
    if mask is None:
        return BroadcastToOp(node.constant(np.zeros(1, np.int32)), shape=(batch,)).y
    is_kept = EqualOp(mask, scalar_like(node, 1, mask)).z
    return SumOp(AstypeOp(is_kept, dtype=_INT32).y, axis=(1,), keepdims=False).y
