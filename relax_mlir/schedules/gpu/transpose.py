"""Transpose rule: the output is contiguous along an axis where the input is strided.

A thread block moves a square tile through shared memory, so that both its loads and its
stores coalesce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    div,
    index,
    multiply,
    op,
    product,
    rem,
    unflatten,
)
from relax_mlir.schedules.gpu.launch import alloc_shared, barrier, if_less, launch
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.rule import NotApplicable, check_one_output, check_statements
from relax_mlir.schedules.statement_loops import StatementLoops

__all__ = ["Transpose"]

_TILE = 32  # side of a tile, in elements
_ROWS = 8  # of a tile that the threads of a block cover at once
_MIN_EXTENT = 8  # of an axis for which a tile pays off


@dataclass(frozen=True)
class TransposePlan:
    """A statement with one transposed operand.

    Attributes:
        statement: reads ``source``, among others.
        source: the transposed operand.
        along: the axis along which the output is contiguous.
        across: the axis along which ``source`` is contiguous.
    """

    statement: Statement
    source: Access
    along: int
    across: int


class Transpose(GpuRule[TransposePlan]):
    """One elementwise statement with one transposed operand."""

    def plan(self, kernel: Kernel) -> TransposePlan:
        """Matches a statement with one operand that is contiguous along another axis."""
        check_statements(kernel)
        if len(kernel.statements) != 1:
            raise NotApplicable(f"it has {len(kernel.statements)} statements")
        (statement,) = kernel.statements
        check_one_output(statement)
        if statement.is_reduction:
            raise NotApplicable("it has a reduction")
        if statement.depends_on_indices:
            raise NotApplicable("its body reads loop indices")
        axes = range(len(statement.kinds))
        (result,) = statement.outputs
        along = next((a for a in axes if result.stride_of(a) == 1), None)
        if along is None:
            raise NotApplicable("its result is contiguous along no axis")
        transposed = [a for a in statement.inputs if a.stride_of(along) not in (0, 1)]
        if len(transposed) != 1:
            raise NotApplicable(f"{len(transposed)} operands are transposed, not one")
        (source,) = transposed
        if sum(a.buffer == source.buffer for a in statement.inputs) > 1:
            raise NotApplicable("its transposed operand is read twice")
        across = next((a for a in axes if source.stride_of(a) == 1), None)
        if across is None or _is_short(statement, along, across):
            raise NotApplicable(
                "its transposed operand is contiguous along no long axis"
            )
        return TransposePlan(statement, source, along, across)

    def write(self, plan: TransposePlan) -> None:
        _TransposeKernel(plan).write()


def _is_short(statement: Statement, *axes: int) -> bool:
    extents = [statement.extents[axis] for axis in axes]
    return any(isinstance(e, int) and e < _MIN_EXTENT for e in extents)


@dataclass
class _TransposeKernel:
    plan: TransposePlan

    def write(self) -> None:
        """Emits a launch with a thread block for each tile."""
        plan, extents = self.plan, list(self.plan.statement.extents)
        grid = list(extents)
        for axis in (plan.along, plan.across):
            grid[axis] = ceil_div(extents[axis], _TILE)
        element = plan.source.buffer.type.element_type

        def thread(block: ir.Value, number: ir.Value) -> None:
            corner = unflatten(block, grid)
            for axis in (plan.along, plan.across):
                corner[axis] = multiply(corner[axis], _TILE)
            tile = alloc_shared([_TILE, _TILE + 1], element)
            place, row = rem(number, _TILE), div(number, _TILE)

            def read(
                points: dict[int, IndexLike], along: IndexLike, across: IndexLike
            ) -> None:
                where = plan.source.indices([points[a] for a in range(len(grid))])
                value = op("memref.load", element, plan.source.buffer, *where)
                op("memref.store", None, value, tile, index(along), index(across))

            def compute(
                points: dict[int, IndexLike], along: IndexLike, across: IndexLike
            ) -> None:
                def relocate(
                    buffer: ir.Value, where: list[ir.Value]
                ) -> tuple[ir.Value, list[ir.Value]]:
                    if buffer == plan.source.buffer:
                        return tile, [index(along), index(across)]
                    return buffer, where

                loops = StatementLoops(plan.statement, points, relocate, {})
                loops.emit_point(None, 1)

            for first in range(0, _TILE, _ROWS):
                self._at(corner, add(row, first), place, read)
            barrier()
            for first in range(0, _TILE, _ROWS):
                self._at(corner, place, add(row, first), compute)

        launch(product(grid), _TILE * _ROWS, thread)

    def _at(
        self,
        corner: list[IndexLike],
        along: IndexLike,
        across: IndexLike,
        body: Callable[[dict[int, IndexLike], IndexLike, IndexLike], None],
    ) -> None:
        """Emits ``body`` for an element of a tile, predicated at the edges of the domain."""
        plan, extents = self.plan, self.plan.statement.extents
        points = dict(enumerate(corner))
        points[plan.along] = add(corner[plan.along], along)
        points[plan.across] = add(corner[plan.across], across)

        def inside() -> None:
            if_less(
                points[plan.across],
                extents[plan.across],
                lambda: body(points, along, across),
            )

        if_less(points[plan.along], extents[plan.along], inside)
