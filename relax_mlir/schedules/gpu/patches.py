"""Sums of a warpgroup's products on their way from the threads that have them.

Instructions give each thread two neighbours of every eight columns. Results are written, and
what is added to them read, by threads that stand side by side in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
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
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, WARP, alloc_shared

__all__ = ["PATCH_COLUMNS", "PATCH_ROWS", "Patches", "neighbours"]

PATCH_ROWS, PATCH_COLUMNS = 16, 64  # that a warp writes at a time
_EIGHT, _HALF = 8, 4  # columns; of each eight a thread has two in one half
_SUM_BITS = 32


def neighbours(plan: Plan, parts: int) -> int:
    """Columns that a thread writes at once: 8 or 4, or 1 where rows are uneven.

    So many that it needs one access for anything that is as large as the result: then the
    accesses of neighbouring threads are neighbours too, and fill sectors of memory.

    Args:
        parts: of the sum, which are written as they are if there are several.
    """
    down, across = {*plan.outer, *plan.m}, {*plan.n}
    bits = [
        access.buffer.type.element_type.width
        for access in Epilogue(plan.anchor, plan.maps, plan.n, 1).accesses
        if access.axes & down and access.axes & across
    ]
    widest = max(bits, default=_SUM_BITS) if parts == 1 else _SUM_BITS
    count = _EIGHT if widest * _EIGHT <= 8 * ACCESS_BYTES else _HALF
    columns = product([plan.anchor.extents[axis] for axis in plan.n])
    return count if isinstance(columns, int) and columns % count == 0 else 1


@dataclass(frozen=True)
class Patches:
    """What warps exchange: 16 rows of 64 columns each.

    In memory they are ``[warp, row, half, piece, element]``, with pieces of four columns, the
    halves of eight, in places such that threads meet different banks.
    """

    memory: ir.Value

    @staticmethod
    def create(warps: int, element: ir.Type) -> Patches:
        """Memory for some warps."""
        shape = [warps, PATCH_ROWS, _EIGHT // _HALF, PATCH_COLUMNS // _EIGHT, _HALF]
        return Patches(alloc_shared(shape, element))

    def write(self, warp: Extent, lane: Extent, sums: Sequence[ir.Value]) -> None:
        """Write what a thread has: two neighbours of a row, and of the eighth row after."""
        row, quarter = div(lane, 4), rem(lane, 4)
        half, inner = div(quarter, 2), multiply(rem(quarter, 2), 2)
        pair = vector_type(2, self.memory.type.element_type)
        for eight in range(PATCH_COLUMNS // _EIGHT):
            piece = _piece(row, half, eight)
            for lower in range(2):
                first = 4 * eight + 2 * lower
                value = op("vector.from_elements", pair, *sums[first : first + 2])
                where = warp, add(row, 8 * lower), half, piece, inner
                op("vector.store", None, value, self.memory, *map(index, where))

    def read(
        self, warp: Extent, lane: Extent, turn: Extent, count: int
    ) -> tuple[Extent, Extent, ir.Value]:
        """So many neighbours, of those that :func:`neighbours` chooses.

        Returns:
            Their row, their first column, and they.
        """
        number = add(multiply(turn, WARP), lane)
        per_row = PATCH_COLUMNS // count
        row, column = div(number, per_row), multiply(rem(number, per_row), count)
        if count < _EIGHT:
            return row, column, self._part(warp, row, column, count)
        halves = [self._part(warp, row, add(column, at), _HALF) for at in (0, _HALF)]
        order = ir.DenseI64ArrayAttr.get(list(range(_EIGHT)))
        type_ = vector_type(_EIGHT, self.memory.type.element_type)
        return row, column, op("vector.shuffle", type_, *halves, mask=order)

    def _part(self, warp: Extent, row: Extent, column: Extent, count: int) -> ir.Value:
        """Neighbours in one half of eight columns."""
        eight, rest = div(column, _EIGHT), rem(column, _EIGHT)
        half, inner = div(rest, _HALF), rem(rest, _HALF)
        where = warp, row, half, _piece(row, half, eight), inner
        type_ = vector_type(count, self.memory.type.element_type)
        return op("vector.load", type_, self.memory, *map(index, where))


def _piece(row: Extent, half: Extent, eight: Extent) -> Extent:
    """Where in its row and half a piece is."""
    turned = _xor(rem(row, 4), multiply(half, 4))
    return _xor(eight, turned)


def _xor(lhs: Extent, rhs: Extent) -> Extent:
    return op("arith.xori", ir.IndexType.get(), index(lhs), index(rhs))
