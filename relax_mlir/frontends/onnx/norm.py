"""Rules for normalization layers."""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.batch_norm import BatchNormOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.dialects.relax.exp_log import RsqrtOp
from relax_mlir.dialects.relax.instance_norm import GroupNormOp, InstanceNormOp
from relax_mlir.dialects.relax.layer_norm import LayerNormOp, RmsNormOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.reduce import MeanOp
from relax_mlir.frontends.onnx.node_form import check_inputs_and_attributes, input_shape

__all__ = ["inverse_rms"]

_F32 = dtype("float32")


@onnx_rule("BatchNormalization", since=7)
def batch_normalization(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Batch normalization by given statistics, or in training mode by those of the batch.

    An input of rank 1 has one channel.

    Source: ONNX BatchNormalization-15.
    """
    if node.attr("spatial", 1) != 1:
        raise NotImplementedError("statistics per element are not supported")
    inputs = [node.input(i) for i in range(5)]
    epsilon = node.attr("epsilon", 1e-5)
    shape = tensors.shape_of(inputs[0])
    if len(shape) != 1:
        return _batch_normalized(node, inputs, epsilon)
    inputs[0] = ReshapeOp(inputs[0], shape=(*shape, 1)).y
    y, *statistics = _batch_normalized(node, inputs, epsilon)
    return [ReshapeOp(y, shape=shape).y, *statistics]


def _batch_normalized(
    node: OnnxNode, inputs: Sequence[ir.Value], epsilon: float
) -> list[ir.Value]:
    """Batch normalization for rank 2 or more; in training mode also returns new statistics."""
    if node.flag("training_mode", default=False):
        return _train(node, inputs, epsilon)
    return [_normalized(inputs, epsilon)]


def _normalized(inputs: Sequence[ir.Value], epsilon: float) -> ir.Value:
    """Batch normalization by given statistics."""
    norm = BatchNormOp(*inputs, axis=1, epsilon=epsilon, training=False)
    return TupleGetItemOp(norm.y, index=0).result


def _train(
    node: OnnxNode, inputs: Sequence[ir.Value], epsilon: float
) -> list[ir.Value]:
    """Batch normalization by the batch's statistics, and the updated running statistics.

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
        node.constant(np.array(weight, type_.numpy))
        for weight in (momentum, 1 - momentum)
    )
    pairs = ((old_mean, mean), (old_var, var))
    return [
        y,
        *(AddOp(MultiplyOp(o, kept).z, MultiplyOp(n, added).z).z for o, n in pairs),
    ]


@onnx_rule("LayerNormalization", since=1)
def older_layer_normalization(node: OnnxNode) -> Sequence[ir.Value | None]:
    """LayerNormalization-17 in older opsets: exporters write it, and onnxruntime accepts it.

    Source: onnxruntime, LayerNormalization-1.
    """
    check_inputs_and_attributes(node, 3, "axis", "epsilon", "stash_type")
    return layer_normalization(node)


@onnx_rule("LayerNormalization", since=17)
def layer_normalization(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Layer normalization over the last axes, with an optional bias.

    Source: ONNX LayerNormalization-17.
    """
    _check_stash_type(node)
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


def _check_stash_type(node: OnnxNode) -> None:
    """Check that statistics are computed in f32.

    Raises:
        NotImplementedError: ``stash_type`` is another element type.
    """
    stash_type = node.attr("stash_type", 1)
    if stash_type != 1:
        raise NotImplementedError(
            f"attribute `stash_type`: expected 1 (f32), got {stash_type}"
        )


def _layer_statistics(
    node: OnnxNode, x: ir.Value, axes: Sequence[int], epsilon: float
) -> list[ir.Value]:
    """The mean and the inverse standard deviation in f32, outputs that few models use."""
    wide = AstypeOp(x, dtype=_F32).y
    mean = MeanOp(wide, axis=axes, keepdims=True).y
    return [mean, inverse_rms(node, SubtractOp(wide, mean).z, axes, epsilon)]


def inverse_rms(
    node: OnnxNode, x: ir.Value, axes: Sequence[int], epsilon: float
) -> ir.Value:
    """Inverse root mean square in f32: 1 / sqrt(mean(x^2) + epsilon), axes kept."""
    wide = AstypeOp(x, dtype=_F32).y
    mean = MeanOp(MultiplyOp(wide, wide).z, axis=axes, keepdims=True).y
    shift = node.constant(np.array(epsilon, np.float32))
    return RsqrtOp(AddOp(mean, shift).z).y


@onnx_rule("InstanceNormalization", since=6)
def instance_normalization(node: OnnxNode) -> ir.Value:
    """Instance normalization: over the spatial axes of each channel.

    Source: ONNX InstanceNormalization-22.
    """
    inputs, epsilon = [node.input(i) for i in range(3)], node.attr("epsilon", 1e-5)
    image = range(2, _feature_map_rank(inputs[0]))
    return InstanceNormOp(*inputs, channel_axis=1, axes=image, epsilon=epsilon).y


@onnx_rule("GroupNormalization", since=18)
def group_normalization_by_groups(node: OnnxNode) -> ir.Value:
    """Group normalization with a scale and a bias per group.

    A scale per channel is accepted, too, as exporters write it.

    Source: ONNX GroupNormalization-18.
    """
    channels, groups = _known_channels(node), node.attr("num_groups")
    numbers = (_per_channel(node, i, channels, groups) for i in (1, 2))
    return _group_norm(node, *numbers)


@onnx_rule("GroupNormalization", since=21)
def group_normalization(node: OnnxNode) -> ir.Value:
    """Group normalization with a scale and a bias per channel.

    Source: ONNX GroupNormalization-21.
    """
    (count,) = input_shape(node, 1, "c")
    if not isinstance(count, int):  # a static scale implies the number of channels
        _known_channels(node)
    return _group_norm(node, node.input(1), node.input(2))


def _known_channels(node: OnnxNode) -> int:
    """The static number of channels.

    Raises:
        NotKnownError: it is symbolic.
    """
    channels = input_shape(node, 0, "n", "c...")[1]
    if not isinstance(channels, int):
        raise ValueNotKnownError(
            0,
            f"expected a known number of channels, got {channels}",
            needs_shape_only=True,
        )
    return channels


def _group_norm(node: OnnxNode, scale: ir.Value, bias: ir.Value) -> ir.Value:
    """Group normalization with a scale and a bias per channel."""
    x = node.input(0)
    image = range(2, _feature_map_rank(x))
    return GroupNormOp(
        x,
        scale,
        bias,
        num_groups=node.attr("num_groups"),
        channel_axis=1,
        axes=image,
        epsilon=node.attr("epsilon", 1e-5),
    ).y


def _feature_map_rank(x: ir.Value) -> int:
    """The rank of [n, c, ...].

    Raises:
        ValueError: x has no channels.
    """
    shape = tensors.shape_of(x)
    if len(shape) < 2:
        raise ValueError(f"x must be [n, c, ...], got {shapes.format_shape(shape)}")
    return len(shape)


def _per_channel(node: OnnxNode, index: int, channels: int, groups: int) -> ir.Value:
    """A parameter per group, repeated for each channel of the group.

    Raises:
        NotKnownError: the size of the parameter is symbolic.
    """
    numbers = node.input(index)
    given = tensors.shape_of(numbers)
    if len(given) == 1 and not isinstance(given[0], int):
        raise ValueNotKnownError(
            index,
            f"expected {groups} or {channels} numbers, got {given[0]}",
            needs_shape_only=True,
        )
    if given != (groups,) or channels == groups:
        return numbers
    column = ReshapeOp(numbers, shape=(groups, 1)).y
    repeated = BroadcastToOp(column, shape=(groups, channels // groups)).y
    return ReshapeOp(repeated, shape=(channels // groups * groups,)).y


@onnx_rule("RMSNormalization", since=23)
def rms_normalization(node: OnnxNode) -> ir.Value:
    """RMS normalization; the result has the element type of the scale.

    Source: ONNX RMSNormalization-23.
    """
    x, scale = node.input(0), node.input(1)
    _check_stash_type(node)
    type_, given = tensors.dtype_of(scale), tensors.dtype_of(x)
    rank = len(tensors.shape_of(x))
    axes = range(shapes.check_axis(node.attr("axis", -1), rank), rank)
    if given.bits < type_.bits:
        x = AstypeOp(x, dtype=type_).y
    y = RmsNormOp(x, scale, axes=axes, epsilon=node.attr("epsilon", 1e-5)).y
    return y if tensors.dtype_of(y) == type_ else AstypeOp(y, dtype=type_).y
