"""Max pooling with the indices of the maxima."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Result
from relax_mlir.dialects.relax.padding import indices_in_range
from relax_mlir.dialects.relax.window_reduction import (
    PoolOp,
    extract_windows,
    lowest_number,
    pool_cases,
    pool_window,
    reduce_windows,
    window_indices,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["MaxPoolWithIndicesOp"]

_INT64 = dtypes.dtype("int64")
_NOWHERE = (1 << 63) - 1  # position of a padding element


class MaxPoolWithIndicesOp(PoolOp, name="max_pool_with_indices"):
    """The largest element of every window, and its index.

    Of equal elements the first in row-major order is taken; NaN is larger than any number.

    Attributes:
        column_major: whether indices count with the first spatial axis fastest.
    Shapes:
        indices: shape of y, int64: indices into the flattened data.
    Source: ONNX MaxPool-12, output ``Indices``.
    """

    indices: Result[RankedTensorType]
    column_major: BoolAttr

    reference_scratch_bytes = 64  # values and positions of all windows
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
        values = extract_windows(
            data, lowest_number(dtypes.from_numpy(data.dtype)), attrs
        )
        positions = extract_windows(flat.reshape(data.shape), _NOWHERE, attrs)
        y = values.max(0)
        hits = (positions != _NOWHERE) & ((values == y) | (values != values))
        first = hits.argmax(0)[None]
        return y, np.take_along_axis(positions, first, 0)[0]

    def legalize(self, b: Builder) -> tuple[Buffer, Buffer]:
        x, window = b.buffer(self.data), pool_window(self.python_attrs())
        shape, type_ = b.results[0]
        y = reduce_windows(b, x, window, shape, "max", lowest_number(type_))
        return y, self._positions(b, x, y)

    def _positions(self, b: Builder, x: Buffer, y: Buffer) -> Buffer:
        """The first row-major position in every window at which x equals y."""
        window = pool_window(self.python_attrs())
        spatial = range(2, x.rank)

        def body(*axes: Index) -> Scalar:
            where = window_indices(window, axes)
            position = _position(b, x.shape, where).to_scalar(_INT64)
            nowhere = b.constant(_NOWHERE, _INT64)
            largest = y[axes[: x.rank]]

            def found() -> Scalar:
                value = x[tuple(where)]
                is_largest = value.equal(largest) | value.not_equal(value)
                return b.select(is_largest, position, nowhere)

            return b.read_if(indices_in_range(b, x, where, spatial), found, nowhere)

        first = b.reduce_over("min", y.shape, window.kernel, body, _INT64, "indices")
        return _column_major(b, x.shape, first) if self.column_major.value else first


def _position(b: Builder, shape: Sequence[Dim], where: Sequence[Index]) -> Index:
    """The row-major position of an element."""
    position = where[0]
    for dim, index in zip(shape[1:], where[1:], strict=True):
        position = position * b.dim(dim) + index
    return position


def _column_major(b: Builder, shape: Sequence[Dim], positions: Buffer) -> Buffer:
    """Converts row-major positions to positions with the first spatial axis fastest."""

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
