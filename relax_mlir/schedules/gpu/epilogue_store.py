"""Epilogue tiles: wgmma accumulators go through shared memory, so that stores coalesce.

A thread's fragment has two adjacent columns of every eight. After the exchange, adjacent
threads hold adjacent vectors of a row, to store results and to load epilogue operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    div,
    index,
    multiply,
    op,
    product,
    rem,
    vector_type,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, WARP_SIZE, alloc_shared
from relax_mlir.schedules.match_contraction import ContractionPlan

__all__ = ["EPILOGUE_COLUMNS", "EPILOGUE_ROWS", "EpilogueTiles", "store_width"]

EPILOGUE_ROWS, EPILOGUE_COLUMNS = 16, 64  # of an epilogue tile, per warp
_EIGHT, _HALF = 8, 4  # columns of a fragment, and of one half of it
_ACCUMULATOR_BITS = 32


def store_width(plan: ContractionPlan, split_k: int) -> int:
    """Vector width of epilogue stores: 8 or 4 columns, or 1 if N is not a multiple of it.

    Such that the widest full-size operand takes one access of 16 bytes: accesses of adjacent
    threads are then contiguous and fill sectors.

    Args:
        split_k: with several splits, f32 partial results are stored.
    """
    down, across = {*plan.outer, *plan.m}, {*plan.n}
    bits = [
        access.buffer.type.element_type.width
        for access in Epilogue(plan.anchor, plan.maps, plan.n, 1).accesses
        if access.axes & down and access.axes & across
    ]
    widest = max(bits, default=_ACCUMULATOR_BITS) if split_k == 1 else _ACCUMULATOR_BITS
    count = _EIGHT if widest * _EIGHT <= 8 * ACCESS_BYTES else _HALF
    columns = product([plan.anchor.extents[axis] for axis in plan.n])
    return count if isinstance(columns, int) and columns % count == 0 else 1


@dataclass(frozen=True)
class EpilogueTiles:
    """Epilogue tiles in shared memory, of 16 rows by 64 columns per warp.

    The layout is ``[warp, row, half, piece, element]``, where a piece is four columns, one
    half of eight; pieces are swizzled against bank conflicts.
    """

    memory: ir.Value

    @staticmethod
    def create(warps: int, element: ir.Type) -> EpilogueTiles:
        """Allocates a tile per warp."""
        shape = [
            warps,
            EPILOGUE_ROWS,
            _EIGHT // _HALF,
            EPILOGUE_COLUMNS // _EIGHT,
            _HALF,
        ]
        return EpilogueTiles(alloc_shared(shape, element))

    def write(
        self, warp: IndexLike, lane: IndexLike, fragment: Sequence[ir.Value]
    ) -> None:
        """Emits the stores of a thread's fragment: pairs of columns in rows r and r + 8."""
        row, quarter = div(lane, 4), rem(lane, 4)
        half, inner = div(quarter, 2), multiply(rem(quarter, 2), 2)
        pair = vector_type(2, self.memory.type.element_type)
        for octet in range(EPILOGUE_COLUMNS // _EIGHT):
            piece = _piece(row, half, octet)
            for lower in range(2):
                first = 4 * octet + 2 * lower
                value = op("vector.from_elements", pair, *fragment[first : first + 2])
                where = warp, add(row, 8 * lower), half, piece, inner
                op("vector.store", None, value, self.memory, *map(index, where))

    def read(
        self, warp: IndexLike, lane: IndexLike, step: IndexLike, count: int
    ) -> tuple[IndexLike, IndexLike, ir.Value]:
        """Emits the load of a vector of ``count`` columns, a width of :func:`store_width`.

        Returns:
            The row, the first column, and the vector.
        """
        position = add(multiply(step, WARP_SIZE), lane)
        per_row = EPILOGUE_COLUMNS // count
        row, column = div(position, per_row), multiply(rem(position, per_row), count)
        if count < _EIGHT:
            return row, column, self._load_half(warp, row, column, count)
        halves = [
            self._load_half(warp, row, add(column, at), _HALF) for at in (0, _HALF)
        ]
        order = ir.DenseI64ArrayAttr.get(list(range(_EIGHT)))
        type_ = vector_type(_EIGHT, self.memory.type.element_type)
        return row, column, op("vector.shuffle", type_, *halves, mask=order)

    def _load_half(
        self, warp: IndexLike, row: IndexLike, column: IndexLike, count: int
    ) -> ir.Value:
        """A vector within one half of eight columns."""
        octet, rest = div(column, _EIGHT), rem(column, _EIGHT)
        half, inner = div(rest, _HALF), rem(rest, _HALF)
        where = warp, row, half, _piece(row, half, octet), inner
        type_ = vector_type(count, self.memory.type.element_type)
        return op("vector.load", type_, self.memory, *map(index, where))


def _piece(row: IndexLike, half: IndexLike, octet: IndexLike) -> IndexLike:
    """The swizzled position of a piece in its row and half."""
    swizzled = _xor(rem(row, 4), multiply(half, 4))
    return _xor(octet, swizzled)


def _xor(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    return op("arith.xori", ir.IndexType.get(), index(lhs), index(rhs))
