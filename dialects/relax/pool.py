"""Max and average pooling over sliding windows, in any layout."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.layouts import SPATIAL, Layout
from relax_mlir.dialects.relax.max_pool_with_indices import MaxPoolWithIndicesOp
from relax_mlir.dialects.relax.window_attributes import (
    SlidingWindow,
    expand_padding,
    expand_per_axis,
    select_by_rank,
)
from relax_mlir.dialects.relax.window_reduction import (
    PoolOp,
    extract_windows,
    lowest_number,
    onnx_pool,
    pool_cases,
    pool_window,
    pooled_shape,
    reduce_windows,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "AvgPool1dOp",
    "AvgPool2dOp",
    "AvgPool3dOp",
    "MaxPool1dOp",
    "MaxPool2dOp",
    "MaxPool3dOp",
]


class LayoutPoolOp(PoolOp):
    """Base of pooling in any layout.

    Attributes:
        pool_size: window size per spatial axis.
        strides, dilation: one number per spatial axis.
        padding: padding before every spatial axis, then after every one.
        ceil_mode: whether the last window may extend beyond the padded input.
        count_include_pad: for averages, whether padding counts as zeros; elements beyond
            the padding (``ceil_mode``) never count.
        layout, out_layout: the layouts of data and y; None for the layout of data.
    Shapes, by letters of the layouts:
        data: n, c, spatial...; y: n, c, windows..., by :func:`shapes.pool_output`.
    """

    spatial_rank: ClassVar[int]
    counts_padding: ClassVar[bool] = False  # the default of count_include_pad

    count_include_pad: BoolAttr
    layout: StringAttr
    out_layout: StringAttr | None

    @classmethod
    @cache
    def attribute_defaults(cls) -> Mapping[str, Any]:
        rank = cls.spatial_rank
        return {
            "pool_size": (1,) * rank,
            "strides": (1,) * rank,
            "padding": (0,) * (2 * rank),
            "dilation": (1,) * rank,
            "ceil_mode": False,
            "count_include_pad": cls.counts_padding,
            "layout": f"NC{SPATIAL[rank]}",
            "out_layout": None,
        }

    @classmethod
    def normalize_arguments(cls, **attrs: Any) -> dict[str, Any]:  # Any: see the base
        rank, merged = cls.spatial_rank, {**cls.attribute_defaults(), **attrs}
        names = ("pool_size", "strides", "dilation")
        return {
            **merged,
            **{name: expand_per_axis(merged[name], rank) for name in names},
            "padding": expand_padding(merged["padding"], rank),
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
        shape = pooled_shape(layout.to_plain(tensors.shape_of(data)), attrs)
        return tensors.tensor_type(out.from_plain(shape), tensors.dtype_of(data))


class MaxPoolOp(LayoutPoolOp):
    """Base of max pooling: the largest element of every window, without padding.

    NaN if the window contains NaN.

    Source: ONNX MaxPool-12; ``ceil_mode`` as in MaxPool-22.
    """

    @classmethod
    def reference(cls, data: np.ndarray, **attrs: Any) -> np.ndarray:
        layout, out = cls.layouts(attrs)
        fill = lowest_number(dtypes.from_numpy(data.dtype))
        y = extract_windows(layout.array_to_plain(data), fill, attrs).max(0)
        return out.array_from_plain(y)

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        layout, out = self.layouts(attrs)
        shape, dtype = b.results[0]
        x, window = layout.buffer(b.buffer(self.data)), pool_window(attrs)
        plain, fill = out.to_plain(shape), lowest_number(dtype)
        return reduce_windows(b, x, window, plain, "max", fill, order=out.order)


class MaxPool1dOp(MaxPoolOp, name="nn_max_pool1d"):
    """Max pooling over one spatial axis."""

    spatial_rank = 1
    cases = (*pool_cases(1), Case((1, 7, 3), pool_size=(3,), layout="NWC"))


class MaxPool2dOp(MaxPoolOp, name="nn_max_pool2d"):
    """Max pooling over two spatial axes."""

    spatial_rank = 2
    cases = (
        *pool_cases(2),
        Case((1, 2, 3, 3)),
        Case(
            (1, 2, 5, 5, "int8"),
            pool_size=(3, 3),
            padding=(1, 1, 1, 1),
            low=-99,
            high=99,
        ),
        Case(
            (1, 2, 5, 5, "uint8"),
            pool_size=(3, 3),
            padding=(1, 1, 1, 1),
            low=0,
            high=255,
        ),
        Case((1, 7, 5, 2), pool_size=(3, 2), padding=(1, 0, 0, 1), layout="NHWC"),
        Case((1, 7, 5, 2), pool_size=(3, 2), layout="NHWC", out_layout="NCHW"),
    )


class MaxPool3dOp(MaxPoolOp, name="nn_max_pool3d"):
    """Max pooling over three spatial axes."""

    spatial_rank = 3
    cases = (*pool_cases(3), Case((1, 3, 4, 5, 2), pool_size=(2, 2, 3), layout="NDHWC"))


_MAX_POOLS = (MaxPool1dOp, MaxPool2dOp, MaxPool3dOp)


@onnx_rule("MaxPool", since=1)
def max_pool(node: OnnxNode) -> "ir.Value | list[ir.Value]":
    """Max pooling, with indices if the second output is used.

    Source: ONNX MaxPool-22.
    """
    if not any(node.wanted[1:]):
        x, attrs = onnx_pool(node, fill=lowest_number(tensors.dtype_of(node.input(0))))
        return select_by_rank(_MAX_POOLS, len(attrs["pool_size"]))(x, **attrs).y
    x, attrs = onnx_pool(node)  # indices are into the unpadded input
    columns = node.flag("storage_order", default=False)
    return list(MaxPoolWithIndicesOp(x, column_major=columns, **attrs).results)


class AvgPoolOp(LayoutPoolOp):
    """Base of average pooling: the mean of every window.

    Source: ONNX AveragePool-19.
    """

    @classmethod
    def reference(cls, data: np.ndarray, **attrs: Any) -> np.ndarray:
        layout, out = cls.layouts(attrs)
        x = layout.array_to_plain(data.astype(np.float64))
        window = pool_window(attrs)
        sizes = window.counts(x.shape[2:], ceil_mode=attrs["ceil_mode"])
        total = extract_windows(x, 0.0, attrs).sum(0)
        count = _counts(window, x.shape[2:], sizes, attrs["count_include_pad"])
        return out.array_from_plain(total / np.maximum(count, 1)).astype(data.dtype)

    def legalize(self, b: Builder) -> Buffer:
        attrs = self.python_attrs()
        layout, out = self.layouts(attrs)
        shape, type_ = b.results[0]
        x, plain = layout.buffer(b.buffer(self.data)), out.to_plain(shape)
        window = pool_window(attrs)
        total = reduce_windows(b, x, window, plain, "add", 0.0)

        def body(*axes: Index) -> Scalar:
            point = out.to_plain(axes)
            count = self._count(b, x, plain, point)
            if isinstance(count, Index):
                count = count.maximum(1).to_scalar(total.dtype)
            return b.cast(total[point] / count, type_)

        return b.compute(shape, body, type_, "divide")

    def _count(
        self, b: Builder, x: Buffer, shape: Sequence[Dim], axes: Sequence[Index]
    ) -> "Index | int":
        """The number of elements that the mean of the window at ``axes`` divides by."""
        window = pool_window(self.python_attrs())
        total: Index | int = 1
        for axis in range(len(window.kernel)):
            begin, end = 0, x.shape[2 + axis]
            if self.count_include_pad.value:
                begin, end = -window.before[axis], end + window.after[axis]
            last = shape[2 + axis] - 1
            total = (
                _overlap(b, window, axis, (begin, end), last, axes[2 + axis]) * total
            )
        return total


def _overlap(
    b: Builder,
    window: SlidingWindow,
    axis: int,
    limits: tuple[int, Dim],
    last: Dim,
    at: Index,
) -> "Index | int":
    """The number of taps of window ``at`` within ``limits``; ``last`` is the last window."""
    kernel, dilation = window.kernel[axis], window.dilations[axis]
    stride, before = window.strides[axis], window.before[axis]
    begin, end = limits
    reach = last * stride - before + dilation * (kernel - 1)
    if begin <= -before and shapes.is_known_le(reach + 1, end):
        return kernel
    start = Index(Index.value_of(at * stride - before))
    before_begin = ((begin - start).maximum(0) + (dilation - 1)) // dilation
    before_end = ((b.dim(end) - start).maximum(0) + (dilation - 1)) // dilation
    return (before_end.minimum(kernel) - before_begin).maximum(0)


def _counts(
    window: SlidingWindow,
    sizes: Sequence[int],
    windows: Sequence[int],
    count_include_pad: bool,
) -> np.ndarray:
    """The number of elements that the mean of every window divides by."""
    count = np.ones((), np.int64)
    for axis, size in enumerate(sizes):
        before, after = window.before[axis], window.after[axis]
        begin, end = (-before, size + after) if count_include_pad else (0, size)
        first = np.arange(windows[axis]) * window.strides[axis] - before
        where = first[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis]
        count = count[..., None] * ((where >= begin) & (where < end)).sum(1)
    return count


class AvgPool1dOp(AvgPoolOp, name="nn_avg_pool1d"):
    """Average pooling over one spatial axis."""

    spatial_rank = 1
    counts_padding = True
    cases = (
        *pool_cases(1),
        *pool_cases(1, count_include_pad=False),
        Case((1, 7, 3), pool_size=(3,), layout="NWC"),
    )


class AvgPool2dOp(AvgPoolOp, name="nn_avg_pool2d"):
    """Average pooling over two spatial axes."""

    spatial_rank = 2
    cases = (
        *pool_cases(2),
        *pool_cases(2, count_include_pad=True),
        Case((1, 7, 5, 2), pool_size=(3, 2), padding=(1, 0, 0, 1), layout="NHWC"),
        Case((1, 7, 5, 2), pool_size=(3, 2), layout="NHWC", out_layout="NCHW"),
    )


class AvgPool3dOp(AvgPoolOp, name="nn_avg_pool3d"):
    """Average pooling over three spatial axes."""

    spatial_rank = 3
    counts_padding = True
    cases = (*pool_cases(3), *pool_cases(3, count_include_pad=False))


_AVG_POOLS = (AvgPool1dOp, AvgPool2dOp, AvgPool3dOp)


@onnx_rule("AveragePool", since=1)
def average_pool(node: OnnxNode) -> ir.Value:
    """Average pooling.

    Source: ONNX AveragePool-22.
    """
    x, attrs = onnx_pool(node)
    include = node.flag("count_include_pad", default=False)
    op = select_by_rank(_AVG_POOLS, len(attrs["pool_size"]))
    return op(x, count_include_pad=include, **attrs).y
