"""Maxima of sliding windows, and where they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Result
from relax_mlir.dialects.relax.padding import is_within
from relax_mlir.dialects.relax.sliding import (
    PoolOp,
    lowest,
    pool_cases,
    pool_window,
    reduce_windows,
    window_elements,
    windows_of,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["MaxPoolWithIndicesOp"]

_INT64 = dtypes.dtype("int64")
_NOWHERE = (1 << 63) - 1  # position of an element that is not there


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

    reference_scratch_bytes = 64  # values and places of all windows
    cases = (
        *pool_cases(column_major=False),
        *pool_cases(column_major=True)[:6],
    )

    @staticmethod
    def infer(
        data: RankedTensorType, column_major: bool = False, **attrs: Any
    ) -> tuple[RankedTensorType, RankedTensorType]:
        y = PoolOp.infer(data, **attrs)
        return y, tensors.tensor_type(tensors.shape_of(y), _INT64)

    @staticmethod
    def reference(
        data: np.ndarray, column_major: bool = False, **attrs: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        flat = np.arange(data.size)
        if column_major:
            n, c, *sizes = data.shape
            backwards = range(data.ndim - 1, 1, -1)
            flat = flat.reshape(n, c, *reversed(sizes)).transpose(0, 1, *backwards)
        values = windows_of(data, lowest(dtypes.from_numpy(data.dtype)), attrs)
        places = windows_of(flat.reshape(data.shape), _NOWHERE, attrs)
        y = values.max(0)
        hits = (places != _NOWHERE) & ((values == y) | (values != values))
        first = hits.argmax(0)[None]
        return y, np.take_along_axis(places, first, 0)[0]

    def legalize(self, b: Builder) -> tuple[Buffer, Buffer]:
        x, window = b.buffer(self.data), pool_window(self.python_attrs())
        shape, type_ = b.results[0]
        y = reduce_windows(b, x, window, shape, "max", lowest(type_))
        return y, self._find(b, x, y)

    def _find(self, b: Builder, x: Buffer, y: Buffer) -> Buffer:
        """The least row-major position in every window where x is y."""
        window = pool_window(self.python_attrs())
        spatial = range(2, x.rank)

        def body(*axes: Index) -> Scalar:
            where = window_elements(window, axes)
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
