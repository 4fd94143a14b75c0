"""Rules for normalisation."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.dialects.relax.exponential import RsqrtOp
from relax_mlir.dialects.relax.instance_norm import GroupNormOp, InstanceNormOp
from relax_mlir.dialects.relax.layer_norm import LayerNormOp, RmsNormOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.reduce import MeanOp

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
    return [_normalized(inputs, epsilon)]


def _normalized(inputs: Sequence[ir.Value], epsilon: float) -> ir.Value:
    """Normalised by these statistics."""
    norm = BatchNormOp(*inputs, axis=1, epsilon=epsilon, training=False)
    return TupleGetItemOp(norm.y, index=0).result


def _train(
    node: OnnxNode, inputs: Sequence[ir.Value], epsilon: float
) -> list[ir.Value]:
    """Normalise by the statistics of the batch, and move the running ones towards them.

    Source: ONNX BatchNormalization-15, ``training_mode``.
    """
    x, scale, bias, old_mean, old_var = inputs
    type_ = tensors.dtype_of(old_mean)
    wide = AstypeOp(x, dtype=type_).y
    rank = len(tensors.shape_of(x))
    axes = [axis for axis in range(rank) if axis != 1]
    means = MeanOp(wide, axis=axes, keepdims=True).y
    centred = SubtractOp(wide, means).z
    mean = MeanOp(wide, axis=axes).y
    var = MeanOp(MultiplyOp(centred, centred).z, axis=axes).y
    y = _normalized([x, scale, bias, mean, var], epsilon)
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
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(axis, rank), rank)
    y = LayerNormOp(x, scale, bias, axes=axes, epsilon=epsilon).y
    if not any(node.wanted[1:]):
        return [y]
    return [y, *_layer_statistics(node, x, axes, epsilon)]


def _layer_statistics(
    node: OnnxNode, x: ir.Value, axes: Sequence[int], epsilon: float
) -> list[ir.Value]:
    """The mean and the inverse deviation in f32, which few models ask for."""
    wide = AstypeOp(x, dtype=_F32).y
    mean = MeanOp(wide, axis=axes, keepdims=True).y
    centred = SubtractOp(wide, mean).z
    variance = MeanOp(MultiplyOp(centred, centred).z, axis=axes, keepdims=True).y
    shift = node.constant(np.array(epsilon, np.float32))
    return [mean, RsqrtOp(AddOp(variance, shift).z).y]


@onnx_rule("InstanceNormalization", since=6)
def instance_normalization(node: OnnxNode) -> ir.Value:
    """Normalised over each channel's image.

    Source: ONNX InstanceNormalization-22.
    """
    inputs, epsilon = [node.input(i) for i in range(3)], node.attr("epsilon", 1e-5)
    image = range(2, _rank_of_images(inputs[0]))
    return InstanceNormOp(*inputs, channel_axis=1, axes=image, epsilon=epsilon).y


@onnx_rule("GroupNormalization", since=18)
def group_normalization(node: OnnxNode) -> ir.Value:
    """Normalised over groups of channels; until opset 20 a scale may be for a group.

    Source: ONNX GroupNormalization-21, and 18 for a scale per group.
    """
    x, groups = node.input(0), node.attr("num_groups")
    image = range(2, _rank_of_images(x))
    return GroupNormOp(
        x,
        *(_per_channel(node.input(i), x, groups) for i in (1, 2)),
        num_groups=groups,
        channel_axis=1,
        axes=image,
        epsilon=node.attr("epsilon", 1e-5),
    ).y


def _rank_of_images(x: ir.Value) -> int:
    """The rank of [n, c, ...].

    Raises:
        ValueError: x has no channels.
    """
    shape = tensors.shape_of(x)
    if len(shape) < 2:
        raise ValueError(f"x must be [n, c, ...], got {shapes.format_shape(shape)}")
    return len(shape)


def _per_channel(numbers: ir.Value, x: ir.Value, groups: int) -> ir.Value:
    """A number per group as one for each of its channels."""
    given, channels = tensors.shape_of(numbers), tensors.shape_of(x)[1]
    if given != (groups,) or channels == groups or not isinstance(channels, int):
        return numbers
    column = ReshapeOp(numbers, shape=(groups, 1)).y
    repeated = BroadcastToOp(column, shape=(groups, channels // groups)).y
    return ReshapeOp(repeated, shape=(channels // groups * groups,)).y


@onnx_rule("RMSNormalization", since=23)
def rms_normalization(node: OnnxNode) -> ir.Value:
    """Divided by the root of the mean square; the result has the type of the scale.

    Source: ONNX RMSNormalization-23.
    """
    x, scale = node.input(0), node.input(1)
    type_, given = tensors.dtype_of(scale), tensors.dtype_of(x)
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(node.attr("axis", -1), rank), rank)
    if given.bits < type_.bits:
        x = AstypeOp(x, dtype=type_).y
    y = RmsNormOp(x, scale, axes=axes, epsilon=node.attr("epsilon", 1e-5)).y
    return y if tensors.dtype_of(y) == type_ else AstypeOp(y, dtype=type_).y
