"""Adaptive average pooling to a given output size, and global pooling."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.layouts import SPATIAL, Layout
from relax_mlir.dialects.relax.reduce import MaxOp, MeanOp
from relax_mlir.dialects.relax.window_attributes import expand_per_axis
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["AdaptiveAvgPool1dOp", "AdaptiveAvgPool2dOp", "AdaptiveAvgPool3dOp"]

_BOOL = dtypes.dtype("bool")


class AdaptiveAvgPoolOp(Relax.Operation):
    """Base of adaptive average pooling to a given output size.

    Output i of m along an axis of size n is the mean of the elements from
    floor(i * n / m) to ceil((i + 1) * n / m), exclusive.

    Attributes:
        output_size: output size per spatial axis; None for the input size.
        layout, out_layout: the layouts of data and y; None for the layout of data.
    Shapes, by letters of the layouts:
        data: n, c, spatial...; y: n, c, output_size....
    Source: PyTorch AdaptiveAvgPool2d.
    """

    spatial_rank: ClassVar[int]

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    output_size: DenseI64ArrayAttr | None
    layout: StringAttr
    out_layout: StringAttr | None

    @classmethod
    @cache
    def attribute_defaults(cls) -> Mapping[str, Any]:
        letters = f"NC{SPATIAL[cls.spatial_rank]}"
        return {"output_size": None, "layout": letters, "out_layout": None}

    @classmethod
    def normalize_arguments(cls, **attrs: Any) -> dict[str, Any]:  # Any: see the base
        merged = {**cls.attribute_defaults(), **attrs}
        size = merged["output_size"]
        return {
            **merged,
            "output_size": None
            if size is None
            else expand_per_axis(size, cls.spatial_rank),
            "out_layout": merged["out_layout"] or merged["layout"],
        }

    @classmethod
    def layouts(cls, attrs: Mapping[str, Any]) -> tuple[Layout, Layout]:
        """The layouts of data and y."""
        plain = f"NC{SPATIAL[cls.spatial_rank]}"
        out = attrs["out_layout"] or attrs["layout"]
        return Layout(attrs["layout"], plain), Layout(out, plain)

    @classmethod
    def infer(cls, data: RankedTensorType, **attrs: Any) -> RankedTensorType:
        attrs = {**cls.attribute_defaults(), **attrs}
        layout, out = cls.layouts(attrs)
        n, c, *sizes = layout.to_plain(tensors.shape_of(data))
        parts = tuple(sizes) if attrs["output_size"] is None else attrs["output_size"]
        if len(parts) != len(sizes) or any(count == 0 for count in parts):
            raise ValueError(
                f"expected {len(sizes)} sizes of 1 or more, got {list(parts)}"
            )
        return tensors.tensor_type(
            out.from_plain((n, c, *parts)), tensors.dtype_of(data)
        )

    @classmethod
    def reference(cls, data: np.ndarray, **attrs: Any) -> np.ndarray:
        layout, out = cls.layouts(attrs)
        y = layout.array_to_plain(data.astype(np.float64))
        parts = attrs["output_size"] or y.shape[2:]
        for axis, count in enumerate(parts, start=2):
            size = y.shape[axis]
            begins = [i * size // count for i in range(count)]
            ends = [-(-(i + 1) * size // count) for i in range(count)]
            means = [
                y.take(range(begin, end), axis).mean(axis)
                for begin, end in zip(begins, ends, strict=True)
            ]
            y = np.stack(means, axis)
        return out.array_from_plain(y).astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        layout, out = self.layouts(self.python_attrs())
        x = layout.buffer(b.buffer(self.data))
        parts = out.to_plain(b.results[0][0])[2:]
        if all(count == 1 for count in parts):
            return _global_mean(b, x, out)
        return _adaptive_mean(b, x, parts, out)


def _global_mean(b: Builder, x: Buffer, out: Layout) -> Buffer:
    shape, dtype = b.results[0]
    kept = b.accumulator_dtype(x.dtype)
    axes = range(2, x.rank)
    total = b.reduce("add", x, axes, fn=b.widen, dtype=kept, name="sum")
    count = b.dim(shapes.product(x.shape[2:]))

    def divide(*axes: Index) -> Scalar:
        by = count.to_scalar(kept) if isinstance(count, Index) else count
        return b.cast(total[out.to_plain(axes)] / by, dtype)

    return b.compute(shape, divide, dtype, "divide")


def _adaptive_mean(b: Builder, x: Buffer, parts: Sequence[Dim], out: Layout) -> Buffer:
    """Masked sums over windows of the largest size, divided by the number of elements.

    A window has at most ceil(n / m) + 1 elements.
    """
    shape, dtype = b.results[0]
    plain, rank = out.to_plain(shape), len(parts)
    extents = [
        shapes.minimum(size, shapes.ceildiv(size, count) + 1)
        for size, count in zip(x.shape[2:], parts, strict=True)
    ]

    def bounds(point: Sequence[Index]) -> list[tuple[Index, Index]]:
        found: list[tuple[Index, Index]] = []
        for i, size, count in zip(point[2:], x.shape[2:], parts, strict=True):
            n, m = b.dim(size), b.dim(count)
            begin, end = i * n, (i + 1) * n + (m - 1)
            found.append(tuple(Index(Index.value_of(v)) // m for v in (begin, end)))
        return found

    def body(*axes: Index) -> Scalar:
        point, taps = axes[: 2 + rank], axes[2 + rank :]
        where = list(point[:2])
        inside = b.constant(1, _BOOL)
        for (begin, end), tap in zip(bounds(point), taps, strict=True):
            where.append(begin + tap)
            inside = inside & (begin + tap < end)
        zero = b.constant(0, b.accumulator_dtype(x.dtype))
        return b.read_if(inside, lambda: b.widen(x[tuple(where)]), zero)

    kept = b.accumulator_dtype(dtype)
    total = b.reduce_over("add", plain, extents, body, kept, "adaptive_pool")

    def divide(*axes: Index) -> Scalar:
        point = out.to_plain(axes)
        count: Index | int = 1
        for begin, end in bounds(point):
            count = (end - begin) * count
        by = Index(Index.value_of(count)).to_scalar(kept)
        return b.cast(total[point] / by, dtype)

    return b.compute(shape, divide, dtype, "divide")


class AdaptiveAvgPool1dOp(AdaptiveAvgPoolOp, name="nn_adaptive_avg_pool1d"):
    """Adaptive average pooling over one spatial axis."""

    spatial_rank = 1
    cases = (
        Case((2, 3, 17), output_size=(1,)),
        Case((1, 2, 7), output_size=(3,)),
        Case((1, 7, 2), output_size=(5,), layout="NWC"),
        Case((1, 2, 3), output_size=(7,)),
    )


class AdaptiveAvgPool2dOp(AdaptiveAvgPoolOp, name="nn_adaptive_avg_pool2d"):
    """Adaptive average pooling over two spatial axes."""

    spatial_rank = 2
    cases = (
        Case((1, 2, 7, 5), output_size=(1, 1)),
        Case((0, 3, 5, 5), output_size=(1, 1)),
        Case((2, 3, 1, 1), output_size=(1, 1)),
        Case((1, 2, 3, 5, "float16"), output_size=(1, 1)),
        Case((1, 2, 3, 5, "float64"), output_size=(1, 1)),
        Case((1, 2, 7, 6), output_size=(3, 2)),
        Case((1, 2, 7, 6, "float16"), output_size=(2, 4)),
        Case((1, 2, 3, 4)),
        Case((1, 7, 5, 2), output_size=(2, 3), layout="NHWC"),
        Case((1, 7, 5, 2), output_size=(1, 1), layout="NHWC", out_layout="NCHW"),
    )


class AdaptiveAvgPool3dOp(AdaptiveAvgPoolOp, name="nn_adaptive_avg_pool3d"):
    """Adaptive average pooling over three spatial axes."""

    spatial_rank = 3
    cases = (
        Case((1, 2, 3, 4, 5), output_size=(1, 1, 1)),
        Case((1, 1, 3, 5, 4), output_size=(2, 3, 4)),
    )


_POOLS = (AdaptiveAvgPool1dOp, AdaptiveAvgPool2dOp, AdaptiveAvgPool3dOp)


@onnx_rule("GlobalAveragePool", since=1)
def global_average_pool(node: OnnxNode) -> ir.Value:
    """The mean of every channel.

    Source: ONNX GlobalAveragePool-1.
    """
    x = node.input(0)
    rank = _spatial_rank(x)
    if rank > len(_POOLS):
        return MeanOp(x, axis=range(2, rank + 2), keepdims=True).y
    return _POOLS[rank - 1](x, output_size=[1] * rank).y


@onnx_rule("GlobalMaxPool", since=1)
def global_max_pool(node: OnnxNode) -> ir.Value:
    """The largest element of every channel; NaN if the channel contains NaN.

    Source: ONNX GlobalMaxPool-1.
    """
    x = node.input(0)
    return MaxOp(x, axis=range(2, _spatial_rank(x) + 2), keepdims=True).y


def _spatial_rank(x: ir.Value) -> int:
    rank = len(tensors.shape_of(x))
    if rank < 3:
        raise ValueError(f"expected rank 3 or more, got {rank}")
    return rank - 2
