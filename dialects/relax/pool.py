"""Pooling over sliding windows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.padding import is_within, read_padded
from relax_mlir.dialects.relax.windows import Window, onnx_window, taps
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "AveragePoolOp",
    "LpPoolOp",
    "MaxPoolOp",
    "MaxPoolWithIndicesOp",
]

_INT64 = dtypes.dtype("int64")
_NOWHERE = (1 << 63) - 1  # position of an element that is not there

_CASES: Sequence[dict[str, Any]] = (
    {"shape": (1, 2, 7, 5), "kernel": (3, 2)},
    {"shape": (2, 3, 8, 8), "kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"shape": (1, 1, 7, 8), "kernel": (2, 3), "strides": (2, 2), "ceil_mode": True},
    {
        "shape": (1, 2, 9, 7),
        "kernel": (2, 3),
        "dilations": (3, 2),
        "pads": (1, 0, 0, 2),
    },
    {"shape": (2, 3, 17), "kernel": (5,), "strides": (3,), "pads": (2, 1)},
    {"shape": (1, 1, 4, 5, 6), "kernel": (2, 2, 3), "strides": (1, 2, 3)},
    {"shape": (0, 3, 5, 5), "kernel": (2, 2)},
    {"shape": (1, 1, 1, 1), "kernel": (1, 1)},
    {"shape": (1, 2, 6, 5, "float16"), "kernel": (2, 2), "pads": (1, 1, 0, 0)},
    {
        "shape": (1, 2, 6, 5, "float64"),
        "kernel": (3, 1),
        "ceil_mode": True,
        "strides": (2, 2),
    },
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
    def infer(x: RankedTensorType, **attrs: Any) -> Any:  # Any: some have two results
        return _pooled_type(x, **attrs)

    @classmethod
    def attribute_defaults(cls) -> dict[str, Any]:
        """Those of the window, and those that ``infer`` names."""
        own = super().attribute_defaults()
        return {"strides": (), "pads": (), "dilations": (), "ceil_mode": False, **own}

    def window(self) -> Window:
        """Where the windows lie."""
        attrs = self.python_attrs()
        return Window.of(
            *(attrs[n] for n in ("kernel", "strides", "pads", "dilations"))
        )

    def _reduce(
        self,
        b: Builder,
        kind: str,
        fill: float,
        fn: Callable[[Scalar], Scalar] = lambda v: v,
    ) -> Buffer:
        """Combine ``fn`` of what every window reads; outside of x is ``fill``."""
        x, window = b.buffer(self.x), self.window()
        shape, type_ = b.results[0]
        rank = len(window.kernel)
        crossed = [
            i for i in range(rank) if window.crosses(i, x.shape[2 + i], shape[2 + i])
        ]

        def body(*axes: Index) -> Scalar:
            where = _elements(window, axes)
            inside = [2 + i for i in crossed]
            value = read_padded(b, x, where, inside, b.constant(fill, type_))
            return fn(b.wide(value) if kind == "add" else value)

        kept = b.sum_dtype(type_) if kind == "add" else type_
        return b.reduce_over(kind, shape, window.kernel, body, kept, "pool")


def _pooled_type(
    x: RankedTensorType,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    ceil_mode: bool = False,
) -> RankedTensorType:
    """[n, c, windows...]."""
    n, c, *sizes = tensors.shape_of(x)
    if len(sizes) != len(kernel):
        raise ValueError(
            f"expected rank {len(kernel) + 2} for this kernel, got {x.rank}"
        )
    window = Window.of(kernel, strides, pads, dilations)
    windows = window.pool_sizes(sizes, ceil_mode=ceil_mode)
    return tensors.tensor_type((n, c, *windows), tensors.dtype_of(x))


def _elements(window: Window, axes: Sequence[Index]) -> list[Index]:
    """The element of x at a point [n, c, windows..., taps...]."""
    rank = len(window.kernel)
    return [*axes[:2], *window.positions(axes[2 : 2 + rank], axes[2 + rank :])]


def _windows(
    x: np.ndarray,
    fill: float,
    kernel: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    ceil_mode: bool = False,
) -> np.ndarray:
    """What all windows read: [taps, n, c, windows...]."""
    window = Window.of(kernel, strides, pads, dilations)
    sizes = window.counts(x.shape[2:], ceil_mode=ceil_mode)
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
    def reference(x: np.ndarray, **attrs: Any) -> np.ndarray:
        return _windows(x, _lowest(dtypes.from_numpy(x.dtype)), **attrs).max(0)

    def legalize(self, b: Builder) -> Buffer:
        return self._reduce(b, "max", _lowest(b.results[0][1]))

    @staticmethod
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
        y = _pooled_type(x, **attrs)
        return y, tensors.tensor_type(tensors.shape_of(y), _INT64)

    @staticmethod
    def reference(
        x: np.ndarray, column_major: bool = False, **attrs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        flat = np.arange(x.size)
        if column_major:
            n, c, *sizes = x.shape
            backwards = range(x.ndim - 1, 1, -1)
            flat = flat.reshape(n, c, *reversed(sizes)).transpose(0, 1, *backwards)
        values = _windows(x, _lowest(dtypes.from_numpy(x.dtype)), **attrs)
        places = _windows(flat.reshape(x.shape), _NOWHERE, **attrs)
        y = values.max(0)
        hits = (places != _NOWHERE) & ((values == y) | (values != values))
        first = hits.argmax(0)[None]
        return y, np.take_along_axis(places, first, 0)[0]

    def legalize(self, b: Builder) -> tuple[Buffer, Buffer]:
        y = self._reduce(b, "max", _lowest(b.results[0][1]))
        return y, self._find(b, b.buffer(self.x), y)

    def _find(self, b: Builder, x: Buffer, y: Buffer) -> Buffer:
        """The least row-major position in every window where x is y."""
        window = self.window()
        spatial = range(2, x.rank)

        def body(*axes: Index) -> Scalar:
            where = _elements(window, axes)
            position = _position(b, x.shape, where).to_scalar(_INT64)
            nowhere = b.constant(_NOWHERE, _INT64)
            largest = y[axes[: x.rank]]

            def found() -> Scalar:
                value = x[tuple(where)]
                is_largest = value.equal(largest) | value.not_equal(value)
                return b.select(is_largest, position, nowhere)

            return b.guarded(is_within(b, x, where, spatial), found, nowhere)

        first = b.reduce_over("min", y.shape, window.kernel, body, _INT64, "indices")
        return _column_major(b, x.shape, first) if self.column_major.value else first


def _position(b: Builder, shape: Sequence[Dim], where: Sequence[Index]) -> Index:
    """The row-major position of an element."""
    position = where[0]
    for dim, index in zip(shape[1:], where[1:], strict=True):
        position = position * b.dim(dim) + index
    return position


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
        total = rest * b.dim(shapes.product(shape[2:])) + total
        return Index(Index.value_of(total)).to_scalar(_INT64)

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
    def infer(
        x: RankedTensorType, count_include_pad: bool = False, **attrs: Any
    ) -> RankedTensorType:
        return _pooled_type(x, **attrs)

    @staticmethod
    def reference(
        x: np.ndarray,
        count_include_pad: bool = False,
        ceil_mode: bool = False,
        **attrs: Any,
    ) -> np.ndarray:
        window = Window.of(**{"strides": (), "pads": (), "dilations": (), **attrs})
        sizes = window.counts(x.shape[2:], ceil_mode=ceil_mode)
        total = _windows(x.astype(np.float64), 0.0, ceil_mode=ceil_mode, **attrs).sum(0)
        count = _counts(window, x.shape[2:], sizes, count_include_pad)
        return (total / np.maximum(count, 1)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        total = self._reduce(b, "add", 0.0)
        shape, type_ = b.results[0]

        def body(*axes: Index) -> Scalar:
            count = self._count(b, shape, axes)
            if isinstance(count, Index):
                count = count.maximum(1).to_scalar(total.dtype)
            return b.cast(total[axes] / count, type_)

        return b.compute(shape, body, type_, "divide")

    def _count(
        self, b: Builder, shape: Sequence[Dim], axes: Sequence[Index]
    ) -> "Index | int":
        """How many elements the window at ``axes`` counts."""
        window, x = self.window(), b.buffer(self.x)
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

    @staticmethod
    @onnx_rule("AveragePool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, attrs = _onnx_attrs(node)
        include = bool(node.attr("count_include_pad", 0))
        return AveragePoolOp(x, count_include_pad=include, **attrs).y


def _overlap(
    b: Builder, window: Window, axis: int, limits: tuple[int, Dim], last: Dim, at: Index
) -> "Index | int":
    """How many taps of window ``at``, of those up to ``last``, lie within the limits."""
    kernel, dilation = window.kernel[axis], window.dilations[axis]
    stride, before = window.strides[axis], window.before[axis]
    begin, end = limits
    reach = last * stride - before + dilation * (kernel - 1)
    if begin <= -before and shapes.is_known_le(reach + 1, end):
        return kernel
    start = Index(Index.value_of(at * stride - before))
    early = ((begin - start).maximum(0) + (dilation - 1)) // dilation
    in_time = ((b.dim(end) - start).maximum(0) + (dilation - 1)) // dilation
    return (in_time.minimum(kernel) - early).maximum(0)


def _counts(
    window: Window,
    sizes: Sequence[int],
    windows: Sequence[int],
    count_include_pad: bool,
) -> np.ndarray:
    """How many elements every window counts."""
    count = np.ones((), np.int64)
    for axis, size in enumerate(sizes):
        before, after = window.before[axis], window.after[axis]
        begin, end = (-before, size + after) if count_include_pad else (0, size)
        first = np.arange(windows[axis]) * window.strides[axis] - before
        where = first[:, None] + np.arange(window.kernel[axis]) * window.dilations[axis]
        count = count[..., None] * ((where >= begin) & (where < end)).sum(1)
    return count


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
        return _pooled_type(x, **attrs)

    @staticmethod
    def reference(x: np.ndarray, p: int = 2, **attrs: Any) -> np.ndarray:
        powers = np.abs(x.astype(np.float64)) ** p
        return (_windows(powers, 0.0, **attrs).sum(0) ** (1 / p)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        p = self.p.value
        total = self._reduce(b, "add", 0.0, lambda v: power(b, v, p))
        dtype = b.results[0][1]
        return b.map(
            lambda v: b.cast(root(b, v, p), dtype), total, dtype=dtype, name="root"
        )

    @staticmethod
    @onnx_rule("LpPool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, attrs = _onnx_attrs(node, fill=0.0)
        return LpPoolOp(x, p=int(node.attr("p", 2)), **attrs).y


def power(b: Builder, v: Scalar, p: int) -> Scalar:
    """|v|^p."""
    base = result = b.math("absf", v)
    for _ in range(p - 1):
        result = result * base
    return result


def root(b: Builder, v: Scalar, p: int) -> Scalar:
    """v^(1/p) for v >= 0."""
    if p <= 2:
        return v if p == 1 else b.math("sqrt", v)
    return b.math("exp", b.math("log", v) / p)


def _onnx_attrs(
    node: OnnxNode, fill: float | None = None
) -> tuple[ir.Value, dict[str, Any]]:  # Any: attributes by name
    """The input and the window of a pooling node."""
    kernel = node.attr("kernel_shape")
    x, attrs = onnx_window(node, node.input(0), kernel, fill)
    return x, {**attrs, "kernel": kernel, "ceil_mode": bool(node.attr("ceil_mode", 0))}
