"""Determinants of matrices."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["DetOp"]

_INT64 = dtypes.dtype("int64")


class DetOp(Relax.Operation, name="det"):
    """The determinant of every matrix, by Gaussian elimination with partial pivoting.

    Shapes:
        x: [..., n, n], floats; y: [...].
    Source: ONNX Det-22.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    tolerance = 1e-4  # products of f32 in another order
    cases = (
        Case((4, 4)),
        Case((2, 3, 5, 5)),
        Case((3, 1, 1)),
        Case((2, 0, 0)),
        Case((2, 3, 3, "float16")),
    )

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        require_element_type("f", x)
        if x.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {x.rank}")
        *outer, rows, columns = tensors.shape_of(x)
        shapes.unify(rows, columns)
        return tensors.tensor_type(outer, tensors.dtype_of(x))

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.det(x))

    def legalize(self, b: Builder) -> Buffer:
        (x,), (shape, dtype) = b.inputs, b.results[0]
        size = x.shape[-1]
        work = b.alloc((size, size), wide_type(x.dtype))
        out = b.alloc(shape, dtype)

        def matrix(number: Index) -> None:
            outer = _point(b, number, shape)
            _copy(b, x, outer, work)
            value = _eliminate(b, work, b.dim(size))
            out.store(b.cast(value, dtype), outer)

        b.parallel_loop(b.dim(shapes.product(shape)), matrix)
        return out

    @staticmethod
    @onnx_rule("Det", since=11)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return DetOp(node.input(0)).y


def _point(b: Builder, number: Index, shape: Sequence[Dim]) -> list[Index]:
    """The indices of the element with row-major number ``number``."""
    point: list[Index] = []
    for dim in reversed(shape):
        size = b.dim(dim)
        point.append(Index(Index.value_of(number % size)))
        number = number // size
    return point[::-1]


def _copy(b: Builder, x: Buffer, outer: Sequence[Index], work: Buffer) -> None:
    size = b.dim(x.shape[-1])

    def row(i: Index) -> list[Scalar]:
        def element(j: Index) -> list[Scalar]:
            work.store(b.cast(x[(*outer, i, j)], work.dtype), (i, j))
            return []

        b.loop(size, [], element)
        return []

    b.loop(size, [], row)


def _eliminate(b: Builder, work: Buffer, n: "Index | int") -> Scalar:
    """The signed product of the pivots of a matrix, which is overwritten."""
    one = b.constant(1, work.dtype)

    def step(k: Index, det: Scalar) -> list[Scalar]:
        found = _pivot_row(b, work, k, n)
        pivot_row = Index.from_scalar(found)
        _swap_rows(b, work, (k, pivot_row), n)
        pivot = work[k, k]
        _subtract_rows(b, work, k, n)
        is_in_place = found.equal(k.to_scalar(_INT64))
        return [det * b.select(is_in_place, pivot, -pivot)]

    return b.loop(n, [one], step)[0]


def _pivot_row(b: Builder, work: Buffer, k: Index, n: "Index | int") -> Scalar:
    """The row, from k on, with the element of largest magnitude in column k."""

    def step(i: Index, largest: Scalar, where: Scalar) -> list[Scalar]:
        row = k + i
        value = b.math("absf", work[row, k])
        is_larger = value > largest
        return [
            b.select(is_larger, value, largest),
            b.select(is_larger, row.to_scalar(_INT64), where),
        ]

    start = [b.constant(-1, work.dtype), k.to_scalar(_INT64)]
    return b.loop(n - k, start, step)[1]


def _swap_rows(
    b: Builder,
    work: Buffer,
    rows: tuple[Index, Index],
    n: "Index | int",
) -> None:
    def step(j: Index) -> list[Scalar]:
        first, second = ((row, j) for row in rows)
        values = work[first], work[second]
        work.store(values[1], first)
        work.store(values[0], second)
        return []

    b.loop(n, [], step)


def _subtract_rows(b: Builder, work: Buffer, k: Index, n: "Index | int") -> None:
    """Eliminates column k below its pivot; columns before it are not read again.

    Below a pivot of 0 there are only zeros and NaN, which comparisons skip.
    """
    pivot = work[k, k]

    def eliminate(i: Index) -> list[Scalar]:
        row = k + i + 1
        below = work[row, k]
        factor = b.select(pivot.equal(0), below, below / pivot)

        def step(j: Index) -> list[Scalar]:
            column = k + j
            value = work[row, column] - factor * work[k, column]
            work.store(value, (row, column))
            return []

        b.loop(n - k, [], step)
        return []

    b.loop(n - k - 1, [], eliminate)
