"""Rules for normalisation that gives its statistics, too."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.cast import CastOp
from relax_mlir.dialects.relax.exponential import RsqrtOp
from relax_mlir.dialects.relax.layer_norm import LayerNormOp
from relax_mlir.dialects.relax.norm import BatchNormOp
from relax_mlir.dialects.relax.reduce import ReduceMeanOp

_F32 = dtype("float32")


@onnx_rule("BatchNormalization", since=7)
def batch_normalization(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Normalised by statistics that are inputs, or in training mode by those of the batch.

    Source: ONNX BatchNormalization-15.
    """
    if node.attr("spatial", 1) != 1:
        raise NotImplementedError("statistics per element are not supported")
    inputs = [node.input(i) for i in range(5)]
    epsilon = node.attr("epsilon", 1e-5)
    if node.attr("training_mode", 0):
        return _train(node, inputs, epsilon)
    return [BatchNormOp(*inputs, epsilon=epsilon).y]


def _train(
    node: OnnxNode, inputs: Sequence[ir.Value], epsilon: float
) -> list[ir.Value]:
    """Normalise by the statistics of the batch, and move the running ones towards them.

    Source: ONNX BatchNormalization-15, ``training_mode``.
    """
    x, scale, bias, old_mean, old_var = inputs
    type_ = tensors.dtype_of(old_mean)
    wide = CastOp(x, dtype=type_).y
    rank = len(tensors.shape_of(x))
    axes = [axis for axis in range(rank) if axis != 1]
    means = ReduceMeanOp(wide, axes=axes).y
    centred = SubtractOp(wide, means).z
    mean = ReduceMeanOp(wide, axes=axes, keepdims=False).y
    squares = MultiplyOp(centred, centred).z
    var = ReduceMeanOp(squares, axes=axes, keepdims=False).y
    y = BatchNormOp(x, scale, bias, mean, var, epsilon=epsilon).y
    momentum = node.attr("momentum", 0.9)
    kept, added = (
        node.constant(np.array(factor, type_.numpy))
        for factor in (momentum, 1 - momentum)
    )
    pairs = ((old_mean, mean), (old_var, var))
    return [
        y,
        *(AddOp(MultiplyOp(o, kept).z, MultiplyOp(n, added).z).z for o, n in pairs),
    ]


@onnx_rule("LayerNormalization", since=17)
def layer_normalization(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Normalised over the last axes; without a bias it is 0.

    Source: ONNX LayerNormalization-17.
    """
    x, scale, bias = node.input(0), node.input(1), node.optional(2)
    axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)
    if bias is None:
        bias = node.constant(np.zeros((), tensors.dtype_of(scale).numpy))
    y = LayerNormOp(x, scale, bias, axis=axis, epsilon=epsilon).y
    if not any(node.wanted[1:]):
        return [y]
    return [y, *_layer_statistics(node, x, axis, epsilon)]


def _layer_statistics(
    node: OnnxNode, x: ir.Value, axis: int, epsilon: float
) -> list[ir.Value]:
    """The mean and the inverse deviation in f32, which few models ask for."""
    wide = CastOp(x, dtype=_F32).y
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(axis, rank), rank)
    mean = ReduceMeanOp(wide, axes=axes).y
    centred = SubtractOp(wide, mean).z
    variance = ReduceMeanOp(MultiplyOp(centred, centred).z, axes=axes).y
    shift = node.constant(np.array(epsilon, np.float32))
    return [mean, RsqrtOp(AddOp(variance, shift).z).y]
