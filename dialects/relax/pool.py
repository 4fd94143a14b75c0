"""Pooling: one number from every window, or from every channel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.windows import Window, onnx_window, taps
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "AveragePoolOp",
    "GlobalAveragePoolOp",
    "GlobalLpPoolOp",
    "GlobalMaxPoolOp",
    "LpPoolOp",
    "MaxPoolOp",
    "MaxPoolWithIndicesOp",
]

_INT64 = dtype("int64")

_CASES: Sequence[dict[str, Any]] = (
    {"shape": (1, 2, 7, 5), "kernel": (3, 2)},
    {"shape": (2, 3, 8, 8), "kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"shape": (1, 1, 7, 8), "kernel": (2, 3), "strides": (2, 2), "ceil_mode": True},
    {"shape": (1, 2, 9, 7), "kernel": (2, 3), "dilations": (3, 2), "pads": (1, 0, 0, 2)},
    {"shape": (2, 3, 17), "kernel": (5,), "strides": (3,), "pads": (2, 1)},
    {"shape": (1, 1, 4, 5, 6), "kernel": (2, 2, 3), "strides": (1, 2, 3)},
    {"shape": (0, 3, 5, 5), "kernel": (2, 2)},
    {"shape": (1, 1, 1, 1), "kernel": (1, 1)},
    {"shape": (1, 2, 6, 5, "float16"), "kernel": (2, 2), "pads": (1, 1, 0, 0)},
    {"shape": (1, 2, 6, 5, "float64"), "kernel": (3, 1), "ceil_mode": True, "strides": (2, 2)},
)


def _cases(**attrs: Any) -> tuple[Case, ...]:  # Any: attributes of every kind
    """The cases of every pooling, with some more attributes."""
    common = [dict(case) for case in _CASES]
    return tuple(Case(case.pop("shape"), **case, **attrs) for case in common)


class PoolOp(Relax.Operation):
    """Base of poolings over sliding windows.

    Attributes:
        kernel: elements of a window per spatial axis.
        strides, dilations: one number per spatial axis; none at all stands for 1s.
        pads: elements before every spatial axis, then after every one; none for 0s.
        ceil_mode: whether the last window may overhang the end of an axis.
    Shapes:
        x: [n, c, spatial...]; y: [n, c, windows...], by :func:`shapes.pool_output`.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    kernel: DenseI64ArrayAttr
    strides: DenseI64ArrayAttr
    pads: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    ceil_mode: BoolAttr

    @staticmethod
    def infer(
        x: RankedTensorType,
        kernel: Sequence[int],
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        ceil_mode: bool = False,
    ) -> RankedTensorType:
        n, c, *sizes = tensors.shape_of(x)
        if len(sizes) != len(kernel):
            raise ValueError(f"expected rank {len(kernel) + 2} for this kernel, got {x.rank}")
        window = Window.of(kernel, strides, pads, dilations)
        windows = window.pool_sizes(sizes, ceil_mode=ceil_mode)
        return tensors.tensor_type((n, c, *windows), tensors.dtype_of(x))

    def window(self) -> Window:
        """Where the windows lie."""
        attrs = self.python_attrs()
        return Window.of(*(attrs[n] for n in ("kernel", "strides", "pads", "dilations")))

    def _reduce(self, b: Builder, kind: str, x: Buffer, fill: float) -> Buffer:
        """Combine every window of ``x``; outside of it is ``fill``, already in y's sums."""
        shape, type_ = b.results[0]
        window = self.window()
        kept = b.sum_dtype(type_) if kind == "add" else type_

        def body(*axes: Index) -> Scalar:
            value = _read(b, x, window, shape[2:], axes, fill)
            return b.cast(value, kept)

        return b.reduce_over(kind, shape, window.kernel, body, kept, "pool")


def _read(
    b: Builder, x: Buffer, window: Window, windows: Sequence[Dim], axes: Sequence[Index], fill: float
) -> Scalar:
    """What the window at ``axes`` reads: [n, c, windows..., taps...]."""
    rank = len(windows)
    where = [*axes[:2], *window.positions(axes[2 : 2 + rank], axes[2 + rank :])]
    crossed = [2 + i for i in range(rank) if window.crosses(i, x.shape[2 + i], windows[i])]
    return read_padded(b, x, where, crossed, b.constant(fill, x.dtype))


def _windows(x: np.ndarray, fill: float, **attrs: Any) -> np.ndarray:  # Any: see _cases
    """What all windows read: [taps, n, c, windows...]."""
    ceil_mode = attrs.pop("ceil_mode")
    window = Window.of(**attrs)
    sizes = window.pool_sizes(x.shape[2:], ceil_mode=ceil_mode)
    return np.stack([read for _, read in taps(x, window, sizes, fill)])


def _lowest(type_: DType) -> float:
    if type_.is_float:
        return -float("inf")
    return 0 if type_.kind in "ub" else -(1 << (type_.bits - 1))


class MaxPoolOp(PoolOp, name="max_pool"):
    """The largest element of every window; NaN if it holds one; padding never counts.

    Source: ONNX MaxPool-12; ``ceil_mode`` as in MaxPool-22.
    """

    cases = (
        *_cases(),
        Case((1, 2, 5, 5, "int8"), kernel=(3, 3), pads=(1, 1, 1, 1), low=-99, high=99),
        Case((1, 2, 5, 5, "uint8"), kernel=(3, 3), pads=(1, 1, 1, 1), low=0, high=255),
    )

    @staticmethod
    def reference(
        x: np.ndarray,
        kernel: Sequence[int],
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        ceil_mode: bool = False,
    ) -> np.ndarray:
        fill = _lowest(dtype(x.dtype.name))
        return _windows(
            x, fill, kernel=kernel, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
        ).max(0)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        return self._reduce(b, "max", x, _lowest(x.dtype))

    @onnx_rule("MaxPool", since=1)
    def from_onnx(node: OnnxNode) -> "ir.Value | list[ir.Value]":
        x, attrs = _onnx_attrs(node, fill=_lowest(tensors.dtype_of(node.input(0))))
        if len(node.wanted) < 2 or not node.wanted[1]:
            return MaxPoolOp(x, **attrs).y
        if x != node.input(0):
            raise ValueError("indices of maxima need padding that is known")
        columns = bool(node.attr("storage_order", 0))
        return list(MaxPoolWithIndicesOp(x, column_major=columns, **attrs).results)


class MaxPoolWithIndicesOp(PoolOp, name="max_pool_with_indices"):
    """The largest element of every window, and where it is.

    Of several equal ones the first counts, in row-major order of the window; NaN is
    larger than any number.

    Attributes:
        column_major: count positions with the first spatial axis fastest.
    Shapes:
        indices: y's shape, int64: positions in x as if it were one-dimensional.
    Source: ONNX MaxPool-12, output ``Indices``.
    """

    indices: Result[RankedTensorType]
    column_major: BoolAttr

    cases = (*_cases(column_major=False), *_cases(column_major=True)[:6])

    @staticmethod
    def infer(
        x: RankedTensorType, column_major: bool = False, **attrs: Any
    ) -> tuple[RankedTensorType, RankedTensorType]:
        y = PoolOp.infer(x, **attrs)
        return y, tensors.tensor_type(tensors.shape_of(y), _INT64)

    @classmethod
    def attribute_defaults(cls) -> dict[str, Any]:
        return {**MaxPoolOp.attribute_defaults(), "column_major": False}

    @staticmethod
    def reference(
        x: np.ndarray, column_major: bool = False, **attrs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        attrs = {**MaxPoolOp.attribute_defaults(), **attrs}
        flat = np.arange(x.size)
        if column_major:
            n, c, *sizes = x.shape
            flat = flat.reshape(n, c, *reversed(sizes)).transpose(0, 1, *range(x.ndim - 1, 1, -1))
        values = _windows(x, _lowest(dtype(x.dtype.name)), **attrs)
        places = _windows(flat.reshape(x.shape), -1, **attrs)
        ranks = np.where(places < 0, -np.inf, np.where(np.isnan(values), np.inf, values))
        # -inf may be an element too, and padding must lose against it.
        first = np.argmax(np.where(places < 0, np.nan_to_num(ranks, neginf=-1), 0) + ranks, 0)[None]
        take = [np.take_along_axis(a, first, 0)[0] for a in (values, places)]
        return take[0], take[1]

    def legalize(self, b: Builder) -> tuple[Buffer, Buffer]:
        x = b.buffer(self.x)
        y = self._reduce(b, "max", x, _lowest(x.dtype))
        return y, self._find(b, x, y)

    def _find(self, b: Builder, x: Buffer, y: Buffer) -> Buffer:
        """The least row-major position in every window where x is y."""
        window = self.window()
        rank = len(window.kernel)

        def body(*axes: Index) -> Scalar:
            where = [*axes[:2], *window.positions(axes[2 : 2 + rank], axes[2 + rank :])]
            position = _position(b, x.shape, where).to_scalar(_INT64)
            nowhere = b.constant((1 << 63) - 1, _INT64)

            def read() -> Scalar:
                value = x[tuple(where)]
                is_top = value.equal(y[axes[: 2 + rank]]) | value.not_equal(value)
                return b.select(is_top, position, nowhere)

            return b.guarded(_is_within(b, x, where), read, nowhere)

        first = b.reduce_over("min", y.shape, window.kernel, body, _INT64, "indices")
        return _column_major(b, x.shape, first) if self.column_major.value else first


def _position(b: Builder, shape: Sequence[Dim], where: Sequence[Index]) -> Index:
    """The row-major position of an element."""
    position = where[0]
    for dim, index in zip(shape[1:], where[1:], strict=True):
        position = position * b.dim(dim) + index
    return position


def _is_within(b: Builder, x: Buffer, where: Sequence[Index]) -> Scalar:
    inside = where[0] >= 0
    for dim, index in zip(x.shape[2:], where[2:], strict=True):
        inside = inside & (index >= 0) & (index < b.dim(dim))
    return inside


def _column_major(b: Builder, shape: Sequence[Dim], positions: Buffer) -> Buffer:
    """Row-major positions, counted with the first spatial axis fastest."""

    def convert(position: Scalar) -> Scalar:
        rest = Index.from_scalar(position)
        total: Index | int = 0
        step: Dim = shapes.product(shape[2:])
        for dim in reversed(shape[2:]):
            step = shapes.floordiv(step, dim)
            total = rest % b.dim(dim) * b.dim(step) + total
            rest = rest // b.dim(dim)
        return (rest * b.dim(shapes.product(shape[2:])) + total).to_scalar(_INT64)

    return b.map(convert, positions, name="column_major")


class AveragePoolOp(PoolOp, name="average_pool"):
    """The mean of every window.

    Attributes:
        count_include_pad: whether padding counts as zeros; where a window overhangs
            the padding, in ``ceil_mode``, nothing counts.
    Source: ONNX AveragePool-19.
    """

    count_include_pad: BoolAttr

    cases = (*_cases(count_include_pad=False), *_cases(count_include_pad=True))

    @staticmethod
    def infer(x: RankedTensorType, count_include_pad: bool = False, **attrs: Any) -> RankedTensorType:
        return PoolOp.infer(x, **attrs)

    @classmethod
    def attribute_defaults(cls) -> dict[str, Any]:
        return {**MaxPoolOp.attribute_defaults(), "count_include_pad": False}

    @staticmethod
    def reference(x: np.ndarray, count_include_pad: bool = False, **attrs: Any) -> np.ndarray:
        attrs = {**MaxPoolOp.attribute_defaults(), **attrs}
        ones = np.ones((1, 1, *x.shape[2:]))
        total = _windows(x.astype(np.float64), 0.0, **attrs).sum(0)
        if count_include_pad:
            rank = len(attrs["kernel"])
            pads = tuple(attrs["pads"]) or (0,) * (2 * rank)
            grown = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)]
            ones, attrs = np.pad(ones, grown, constant_values=1), {**attrs, "pads": ()}
        count = _windows(ones, 0.0, **attrs).sum(0)[..., : total.shape[-1]]
        count = count[tuple(slice(n) for n in (1, 1, *total.shape[2:]))]
        return (total / np.maximum(count, 1)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        total = self._reduce(b, "add", x, 0.0)
        shape, type_ = b.results[0]

        def body(*axes: Index) -> Scalar:
            count = self._count(b, x, shape, axes)
            if isinstance(count, Index):
                count = count.maximum(1).to_scalar(total.dtype)
            return b.cast(total[axes] / count, type_)

        return b.compute(shape, body, type_, "divide")

    def _count(
        self, b: Builder, x: Buffer, shape: Sequence[Dim], axes: Sequence[Index]
    ) -> "Index | int":
        """How many elements the window at ``axes`` counts."""
        window, total = self.window(), 1
        for axis in range(len(window.kernel)):
            size, windows = x.shape[2 + axis], shape[2 + axis]
            begin = 0
            if self.count_include_pad.value:
                begin = -window.before[axis]
                size = size + window.after[axis]
            total = _overlap(b, window, axis, begin, size, windows, axes[2 + axis]) * total
        return total

    @onnx_rule("AveragePool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, attrs = _onnx_attrs(node)
        include = bool(node.attr("count_include_pad", 0))
        return AveragePoolOp(x, count_include_pad=include, **attrs).y


def _overlap(
    b: Builder, window: Window, axis: int, begin: int, end: Dim, windows: Dim, at: Index
) -> "Index | int":
    """How many taps of window ``at`` lie in [begin, end) along ``axis``."""
    kernel, dilation = window.kernel[axis], window.dilations[axis]
    stride, before = window.strides[axis], window.before[axis]
    last = (windows - 1) * stride - before + dilation * (kernel - 1)
    if begin <= -before and shapes.is_known_le(last + 1, end):
        return kernel
    start = at * stride - before
    too_early = ((begin - start).maximum(0) + (dilation - 1)) // dilation
    in_time = ((b.dim(end) - start).maximum(0) + (dilation - 1)) // dilation
    return (in_time.minimum(kernel) - too_early).maximum(0)


class LpPoolOp(PoolOp, name="lp_pool"):
    """The p-norm of every window: (sum |x|^p)^(1/p).

    Attributes:
        p: 1 or more.
    Source: ONNX LpPool-18.
    """

    p: IntegerAttr

    tolerance = 1e-4  # p-th powers and roots of f32
    cases = (*_cases(p=2), *_cases(p=1)[:2], *_cases(p=3)[:2])

    @staticmethod
    def infer(x: RankedTensorType, p: int = 2, **attrs: Any) -> RankedTensorType:
        return PoolOp.infer(x, **attrs)

    @classmethod
    def attribute_defaults(cls) -> dict[str, Any]:
        return {**MaxPoolOp.attribute_defaults(), "p": 2}

    @staticmethod
    def reference(x: np.ndarray, p: int = 2, **attrs: Any) -> np.ndarray:
        attrs = {**MaxPoolOp.attribute_defaults(), **attrs}
        total = _windows(np.abs(x.astype(np.float64)) ** p, 0.0, **attrs).sum(0)
        return (total ** (1 / p)).astype(x.dtype)
