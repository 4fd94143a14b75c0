"""Normalisation over images, groups of channels, and any axes."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, FloatAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import computed_wide, require, wide_type
from relax_mlir.dialects.relax.moments import normalized, statistics
from relax_mlir.dialects.relax.norm import check_channels
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class InstanceNormOp(Relax.Operation, name="instance_norm"):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over each channel's image.

    Computed in f32 for f16 and bf16.

    Shapes:
        x, y: [n, c, ...], same float type. scale, bias: [c], floats.
    Source: Ulyanov et al., Instance Normalization, 2016; ONNX InstanceNormalization-22.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    bias: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    epsilon: FloatAttr

    cases = (
        Case((2, 3, 7), (3,), (3,)),
        Case((2, 3, 5, 17), (3,), (3,), low=5.0, high=9.0),
        Case((1, 1, 71), (1,), (1,), epsilon=0.1),
        Case((0, 3, 4), (3,), (3,)),
        Case((2, 3, 2, 2, 2, "float64"), (3, "float64"), (3, "float64")),
        Case((2, 3, 40, "float16"), (3, "float16"), (3, "float16")),
        Case((2, 3, 40, "bfloat16"), (3,), (3,)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        bias: RankedTensorType,
        epsilon: float = 1e-5,
    ) -> RankedTensorType:
        check_channels(x, scale, bias)
        return x

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float
    ) -> np.ndarray:
        column = (-1, *[1] * (x.ndim - 2))
        y = normalized(x, range(2, x.ndim), epsilon)
        return y * scale.reshape(column) + bias.reshape(column)

    def legalize(self, b: Builder) -> Buffer:
        x, scale, bias = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        zeros = (0,) * (x.rank - 2)
        mean, inverse = statistics(
            b, x, range(2, x.rank), lambda v: 1.0 / b.math("sqrt", v + epsilon)
        )
        factor = b.compute(
            inverse.shape,
            lambda *row: inverse[row] * b.cast(scale[row[1]], wide),
            wide,
            "scale",
        )

        def body(*points: Index) -> Scalar:
            row = (*points[:2], *zeros)
            centred = b.wide(x[points]) - mean[row]
            return b.cast(
                centred * factor[row] + b.cast(bias[points[1]], wide), x.dtype
            )

        return b.compute(x.shape, body, x.dtype, "instance_norm")

    @staticmethod
    @onnx_rule("InstanceNormalization", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        inputs = [node.input(i) for i in range(3)]
        return InstanceNormOp(*inputs, epsilon=node.attr("epsilon", 1e-5)).y


class GroupNormOp(Relax.Operation, name="group_norm"):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over groups of channels.

    Computed in f32 for f16 and bf16.

    Attributes:
        num_groups: a divisor of the number of channels, which must be known.
    Shapes:
        x, y: [n, c, ...], same float type. scale, bias: [c] or [num_groups], floats.
    Source: Wu and He, Group Normalization, 2018; ONNX GroupNormalization-21, and 18 for
        a scale per group.
    """

    x: Operand[RankedTensorType]
    scale: Operand[RankedTensorType]
    bias: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    num_groups: IntegerAttr
    epsilon: FloatAttr

    cases = (
        Case((2, 6, 5, 7), (6,), (6,), num_groups=3),
        Case((2, 4, 71), (4,), (4,), num_groups=1, low=5.0, high=9.0),
        Case((2, 4, 3), (4,), (4,), num_groups=4, epsilon=0.1),
        Case((2, 4), (4,), (4,), num_groups=2),
        Case((2, 4, 3), (2,), (2,), num_groups=2),
        Case((0, 4, 3), (4,), (4,), num_groups=2),
        Case((2, 4, 9, "float64"), (4, "float64"), (4, "float64"), num_groups=2),
        Case((2, 4, 9, "float16"), (4, "float16"), (4, "float16"), num_groups=2),
        Case((2, 4, 9, "bfloat16"), (4,), (4,), num_groups=2),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        scale: RankedTensorType,
        bias: RankedTensorType,
        num_groups: int,
        epsilon: float = 1e-5,
    ) -> RankedTensorType:
        shape = list(tensors.shape_of(x))
        for operand in (x, scale, bias):
            require("f", operand)
        if len(shape) < 2:
            raise ValueError(f"x must be [n, c, ...], got {shapes.format_shape(shape)}")
        for operand in (scale, bias):
            shape[1] = _channels(shape[1], tensors.shape_of(operand), num_groups)
        channels = shape[1]
        if not isinstance(channels, int) or num_groups < 1 or channels % num_groups:
            raise ValueError(
                f"cannot make {num_groups} groups of `{channels}` channels. Hint: their "
                "number must be known, and a multiple of that of the groups"
            )
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        num_groups: int,
        epsilon: float,
    ) -> np.ndarray:
        n, channels, *image = x.shape
        groups = x.reshape(n, num_groups, channels // num_groups, *image)
        axes = tuple(range(2, groups.ndim))
        centred = groups - groups.mean(axes, keepdims=True)
        variance = (centred * centred).mean(axes, keepdims=True)
        y = (centred / np.sqrt(variance + epsilon)).reshape(x.shape)
        column = (channels, *[1] * len(image))
        scale, bias = (v.repeat(channels // len(v)) for v in (scale, bias))
        return y * scale.reshape(column) + bias.reshape(column)

    def legalize(self, b: Builder) -> Buffer:
        """All blocks run over image and group first."""
        x, scale, bias = b.inputs
        wide, epsilon = wide_type(x.dtype), self.epsilon.value
        n, channels, *image = b.results[0][0]  # where infer says how many channels
        groups = self.num_groups.value
        assert isinstance(channels, int)  # infer said so
        size = channels // groups
        rows, inner = (n, groups), (size, *image)

        def place(i: Index, g: Index, j: Index, *rest: Index) -> tuple[Index, ...]:
            return (i, g * size + j, *rest)

        def centred(i: Index, g: Index, *rest: Index) -> Scalar:
            return b.wide(x[place(i, g, *rest)]) - mean[i, g]

        def squared(*points: Index) -> Scalar:
            difference = centred(*points)
            return difference * difference

        def per_channel(buffer: Buffer, g: Index, j: Index) -> Scalar:
            is_grouped = buffer.shape == (groups,)
            return b.cast(buffer[g if is_grouped else g * size + j], wide)

        def inverse(total: Scalar) -> Scalar:
            variance = total / element_count(b, inner, wide)
            return 1.0 / b.math("sqrt", variance + epsilon)

        total = b.reduce_over(
            "add", rows, inner, lambda *p: b.wide(x[place(*p)]), wide, "sum"
        )
        mean = b.map(lambda t: t / element_count(b, inner, wide), total, name="mean")
        squares = b.reduce_over("add", rows, inner, squared, wide, "squares")
        factor = b.map(inverse, squares, name="factor")
        scales = b.compute(
            (*rows, size),
            lambda i, g, j: factor[i, g] * per_channel(scale, g, j),
            wide,
            "scale",
        )
        out = b.alloc((n, channels, *image), x.dtype)

        def normalize(i: Index, g: Index, j: Index, *rest: Index) -> None:
            y = centred(i, g, j, *rest) * scales[i, g, j] + per_channel(bias, g, j)
            out.store(b.cast(y, x.dtype), place(i, g, j, *rest))

        extents = (*rows, *inner)
        b.block("group_norm", extents, "S" * len(extents), normalize)
        return out

    @staticmethod
    @onnx_rule("GroupNormalization", since=18)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return GroupNormOp(
            *(node.input(i) for i in range(3)),
            num_groups=node.attr("num_groups"),
            epsilon=node.attr("epsilon", 1e-5),
        ).y


def _channels(channels: Dim, given: Sequence[Dim], num_groups: int) -> Dim:
    """The number of channels, next to the shape of a scale or a bias.

    Raises:
        ValueError: it has no number per channel, and none per group either.
    """
    if len(given) != 1:
        got = shapes.format_shape(given)
        raise ValueError(f"expected a number per channel or group, got {got}")
    return channels if given[0] == num_groups else shapes.unify(channels, given[0])


class MeanVarianceNormOp(Relax.Operation, name="mean_variance_norm"):
    """(x - mean) / (sqrt(variance) + 1e-9) over some axes.

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
        require("f", x)
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
        mean, factor = statistics(
            b, x, axes, lambda v: 1.0 / (b.math("sqrt", v) + 1e-9)
        )
        return b.map(
            lambda v, m, f: b.cast((b.wide(v) - m) * f, x.dtype),
            *(x, mean, factor),
            dtype=x.dtype,
            name="mean_variance_norm",
        )

    @staticmethod
    @onnx_rule("MeanVarianceNormalization", since=9)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return MeanVarianceNormOp(node.input(0), axes=node.attr("axes", [0, 2, 3])).y
