"""Instance, group and mean-variance normalisation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import (
    BoolAttr,
    DenseI64ArrayAttr,
    FloatAttr,
    IntegerAttr,
    RankedTensorType,
)

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.batch_norm import check_channels
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.mean_variance_norm import (
    broadcastable_weights,
    mean_and_variance,
    normalize_mean_variance,
    scale_and_shift,
)
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_TYPES = (("float64", "float64"), ("float16", "float16"), ("bfloat16", "float32"))


def _group_case(
    shape: tuple[int, ...],
    channels: int,
    num_groups: int,
    *,
    channel_axis: int = 1,
    axes: tuple[int, ...] = (2,),
    **attrs: Any,
) -> Case:  # Any: see Case
    """A test case of group normalisation with gamma and beta of ``channels``."""
    known = {"num_groups": num_groups, "channel_axis": channel_axis, "axes": axes}
    return Case(shape, (channels,), (channels,), **known, **attrs)


class InstanceNormOp(Relax.Operation, name="nn_instance_norm"):
    """Instance normalisation: (data - mean) / sqrt(variance + epsilon) * gamma + beta.

    Mean and variance are per image and channel. Computed in f32 for f16 and bf16.

    Attributes:
        channel_axis: the axis of gamma and beta.
        axes: the spatial axes, over which mean and variance are computed.
        epsilon: added to the variance.
        center: whether beta is added.
        scale: whether the result is multiplied by gamma.
    Shapes:
        data, y: any shape, same float type. gamma, beta: [c], floats.
    Source: Ulyanov et al., Instance Normalization, 2016.
    """

    data: Operand[RankedTensorType]
    gamma: Operand[RankedTensorType]
    beta: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    channel_axis: IntegerAttr
    axes: DenseI64ArrayAttr
    epsilon: FloatAttr
    center: BoolAttr
    scale: BoolAttr

    cases = (
        Case((2, 3, 7), (3,), (3,), channel_axis=1, axes=(2,)),
        Case((2, 3, 5, 17), (3,), (3,), channel_axis=1, axes=(2, 3), low=5.0, high=9.0),
        Case((1, 1, 71), (1,), (1,), channel_axis=1, axes=(2,), epsilon=0.1),
        Case((0, 3, 4), (3,), (3,), channel_axis=1, axes=(2,)),
        Case((2, 5, 7, 3), (3,), (3,), channel_axis=-1, axes=(1, 2)),
        Case((2, 3, 7), (3,), (3,), channel_axis=1, axes=(2,), center=False),
        Case((2, 3, 7), (3,), (3,), channel_axis=1, axes=(2,), scale=False),
        *(
            Case((2, 3, 40, x), (3, k), (3, k), channel_axis=1, axes=(2,))
            for x, k in _TYPES
        ),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        gamma: RankedTensorType,
        beta: RankedTensorType,
        channel_axis: int,
        axes: Sequence[int],
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
    ) -> RankedTensorType:
        check_channels(data, channel_axis, gamma, beta)
        _spatial_axes(channel_axis, axes, data.rank)
        return data

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axes": int_tuple(attrs["axes"])}

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray,
        gamma: np.ndarray,
        beta: np.ndarray,
        channel_axis: int,
        axes: Sequence[int],
        epsilon: float,
        center: bool,
        scale: bool,
    ) -> np.ndarray:
        channel, axes = _spatial_axes(channel_axis, axes, data.ndim)
        gamma, beta = (
            broadcastable_weights(v, [channel], data.ndim) for v in (gamma, beta)
        )
        y = normalize_mean_variance(data, axes, epsilon)
        return scale_and_shift(y, gamma, beta, center=center, scale=scale)

    def legalize(self, b: Builder) -> Buffer:
        x, gamma, beta = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        channel, axes = _spatial_axes(self.channel_axis.value, tuple(self.axes), x.rank)
        mean, factor = mean_and_variance(
            b, x, axes, lambda v: 1.0 / b.math("sqrt", v + epsilon)
        )
        if self.scale.value:
            factor = b.compute(
                factor.shape,
                lambda *row, f=factor: f[row] * b.cast(gamma[row[channel]], wide),
                wide,
                "scale",
            )

        def body(*points: Index) -> Scalar:
            row = tuple(0 if i in axes else point for i, point in enumerate(points))
            y = (b.widen(x[points]) - mean[row]) * factor[row]
            if self.center.value:
                y = y + b.cast(beta[points[channel]], wide)
            return b.cast(y, x.dtype)

        return b.compute(x.shape, body, x.dtype, "instance_norm")


def _spatial_axes(
    channel_axis: int, axes: Sequence[int], rank: int
) -> tuple[int, tuple[int, ...]]:
    """The channel axis and the spatial axes, counted from the front.

    Raises:
        ValueError: the channel axis is among the spatial axes.
    """
    channel = shapes.check_axis(channel_axis, rank)
    spatial = shapes.normalize_axes(axes, rank)
    if channel in spatial:
        raise ValueError(f"channel_axis {channel} is among axes {list(spatial)}")
    return channel, spatial


class GroupNormOp(Relax.Operation, name="nn_group_norm"):
    """Group normalisation: (data - mean) / sqrt(variance + epsilon) * gamma + beta.

    Mean and variance are per group of channels. Computed in f32 for f16 and bf16.

    Attributes:
        num_groups: number of groups, a divisor of the number of channels.
        channel_axis: the channel axis.
        axes: the spatial axes, over which mean and variance are computed in addition to
            the channels of a group.
        epsilon: added to the variance.
        center: whether beta is added.
        scale: whether the result is multiplied by gamma.
    Shapes:
        data, y: any shape, same float type. gamma, beta: [c], floats.
    Source: Wu and He, Group Normalization, 2018.
    """

    data: Operand[RankedTensorType]
    gamma: Operand[RankedTensorType]
    beta: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    num_groups: IntegerAttr
    channel_axis: IntegerAttr
    axes: DenseI64ArrayAttr
    epsilon: FloatAttr
    center: BoolAttr
    scale: BoolAttr

    cases = (
        _group_case((2, 6, 5, 7), 6, 3, axes=(2, 3)),
        _group_case((2, 4, 71), 4, 1, low=5.0, high=9.0),
        _group_case((2, 4, 3), 4, 4, epsilon=0.1),
        _group_case((2, 4), 4, 2, axes=()),
        _group_case((0, 4, 3), 4, 2),
        _group_case((2, 4, 3, 5), 4, 2),
        _group_case((2, 3, 5, 4), 4, 2, channel_axis=-1, axes=(1, 2)),
        _group_case((4, 3, 5), 4, 2, channel_axis=0, axes=(-1,)),
        _group_case((2, 4, 3), 4, 2, center=False),
        _group_case((2, 4, 3), 4, 2, scale=False),
        *(
            Case((2, 4, 9, x), (4, k), (4, k), num_groups=2, channel_axis=1, axes=(2,))
            for x, k in _TYPES
        ),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        gamma: RankedTensorType,
        beta: RankedTensorType,
        num_groups: int,
        channel_axis: int,
        axes: Sequence[int],
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
    ) -> RankedTensorType:
        check_channels(data, channel_axis, gamma, beta)
        channel, _ = _spatial_axes(channel_axis, axes, data.rank)
        shape = list(tensors.shape_of(data))
        for operand in (gamma, beta):
            shape[channel] = shapes.unify(shape[channel], tensors.shape_of(operand)[0])
        channels = shape[channel]
        if num_groups < 1:
            raise ValueError(f"num_groups: expected at least 1, got {num_groups}")
        shapes.require_multiple(channels, num_groups, "channels")
        return tensors.tensor_type(shape, tensors.dtype_of(data))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "axes": int_tuple(attrs["axes"])}

    @staticmethod
    @computed_wide
    def reference(
        data: np.ndarray,
        gamma: np.ndarray,
        beta: np.ndarray,
        num_groups: int,
        channel_axis: int,
        axes: Sequence[int],
        epsilon: float,
        center: bool,
        scale: bool,
    ) -> np.ndarray:
        channel, spatial = _spatial_axes(channel_axis, axes, data.ndim)
        shape = list(data.shape)
        size = shape[channel] // num_groups
        groups = data.reshape(*shape[:channel], num_groups, size, *shape[channel + 1 :])
        reduced = [channel + 1, *(axis + (axis > channel) for axis in spatial)]
        y = normalize_mean_variance(groups, reduced, epsilon).reshape(shape)
        gamma, beta = (
            broadcastable_weights(v, [channel], data.ndim) for v in (gamma, beta)
        )
        return scale_and_shift(y, gamma, beta, center=center, scale=scale)

    def legalize(self, b: Builder) -> Buffer:
        """Blocks over the batch axes and the group, then the axes of a group."""
        x, gamma, beta = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        channel, spatial = _spatial_axes(
            self.channel_axis.value, tuple(self.axes), x.rank
        )
        shape = b.results[0][0]  # refined by `infer`: the number of channels is known
        groups, channels = self.num_groups.value, shape[channel]
        size = shapes.floordiv(channels, groups)
        group_size = b.dim(size)
        others = [i for i in range(x.rank) if i != channel and i not in spatial]
        rows = (*(shape[i] for i in others), groups)
        inner = (size, *(shape[i] for i in spatial))
        count = len(rows)

        def element(*points: Index) -> "tuple[Index | int, ...]":
            *outer, group, number = points[: count + 1]
            where = dict(
                zip((*others, *spatial), (*outer, *points[count + 1 :]), strict=True)
            )
            where[channel] = group * group_size + number
            return tuple(where[i] for i in range(x.rank))

        def centred(*points: Index) -> Scalar:
            return b.widen(x[element(*points)]) - mean[points[:count]]

        def squared(*points: Index) -> Scalar:
            difference = centred(*points)
            return difference * difference

        def inverse(total: Scalar) -> Scalar:
            variance = total / element_count(b, inner, wide)
            return 1.0 / b.math("sqrt", variance + epsilon)

        total = b.reduce_over(
            "add", rows, inner, lambda *p: b.widen(x[element(*p)]), wide, "sum"
        )
        mean = b.map(lambda t: t / element_count(b, inner, wide), total, name="mean")
        squares = b.reduce_over("add", rows, inner, squared, wide, "squares")
        factor = b.map(inverse, squares, name="factor")

        def per_channel(*points: Index) -> Scalar:
            *_, group, number = points
            own = factor[points[:count]]
            if not self.scale.value:
                return own
            return own * b.cast(gamma[group * group_size + number], wide)

        scales = b.compute((*rows, size), per_channel, wide, "scale")
        out = b.alloc(shape, x.dtype)

        def normalize(*points: Index) -> None:
            where = element(*points)
            y = centred(*points) * scales[points[: count + 1]]
            if self.center.value:
                y = y + b.cast(beta[where[channel]], wide)
            out.store(b.cast(y, x.dtype), where)

        extents = (*rows, *inner)
        b.block("group_norm", extents, "S" * len(extents), normalize)
        return out


class MeanVarianceNormOp(Relax.Operation, name="mean_variance_norm"):
    """Mean-variance normalisation: (x - mean) / (sqrt(variance) + 1e-9).

    Attributes:
        axes: the axes over which mean and variance are computed.
    Shapes:
        x, y: any shape, same float type.
    Source: ONNX MeanVarianceNormalization-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr

    cases = (
        Case((2, 3, 5, 7)),
        Case((3, 71), axes=(1,)),
        Case((7, 3), axes=(0,)),
        Case((3, 4), axes=(0, -1)),
        Case((0, 3), axes=(1,)),
        Case((3, 40, "float64"), axes=(1,)),
        Case((3, 40, "float16"), axes=(1,)),
        Case((3, 40, "bfloat16"), axes=(1,)),
    )

    @staticmethod
    def infer(x: RankedTensorType, axes: Sequence[int] = (0, 2, 3)) -> RankedTensorType:
        require_element_type("f", x)
        shapes.normalize_axes(axes, len(tensors.shape_of(x)))
        return x

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        centred = x - x.mean(tuple(axes), keepdims=True)
        variance = (centred * centred).mean(tuple(axes), keepdims=True)
        return centred / (np.sqrt(variance) + 1e-9)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        axes = shapes.normalize_axes(self.axes, x.rank)
        mean, factor = mean_and_variance(
            b, x, axes, lambda v: 1.0 / (b.math("sqrt", v) + 1e-9)
        )
        return b.map(
            lambda v, m, f: b.cast((b.widen(v) - m) * f, x.dtype),
            *(x, mean, factor),
            dtype=x.dtype,
            name="mean_variance_norm",
        )

    @staticmethod
    @onnx_rule("MeanVarianceNormalization", since=9)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return MeanVarianceNormOp(node.input(0), axes=node.attr("axes", [0, 2, 3])).y
