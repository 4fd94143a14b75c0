"""Transpose: results whose neighbours lie apart in what they are computed of.

A block takes a square of both axes through shared memory, so that threads of a warp read
neighbours, and write neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
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
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import Refusal, check_one_output, check_statements
from relax_mlir.schedules.statement_loops import StatementLoops

__all__ = ["Transpose"]

_SIDE = 32  # of a square, in elements
_ROWS = 8  # of a square that the threads of a block take at once
_SHORTEST = 8  # of an axis that is worth a square


@dataclass(frozen=True)
class TransposePlan:
    """How a statement is written.

    Attributes:
        statement: what is computed of ``source``, among others.
        source: the operand whose neighbours lie along ``across``.
        along: the axis along which results lie side by side.
    """

    statement: Statement
    source: Access
    along: int
    across: int


class Transpose(GpuRule[TransposePlan]):
    """One statement without sums, of an operand that lies turned in memory."""

    def plan(self, kernel: Kernel) -> TransposePlan:
        """A statement with one operand whose neighbours lie along another axis."""
        check_statements(kernel)
        if len(kernel.statements) != 1:
            raise Refusal(f"it has {len(kernel.statements)} statements")
        (statement,) = kernel.statements
        check_one_output(statement)
        if statement.is_reduction:
            raise Refusal("it has a sum")
        if statement.looks_at_points:
            raise Refusal("what it computes depends on where it is")
        axes = range(len(statement.kinds))
        (result,) = statement.outputs
        along = next((a for a in axes if result.stride_of(a) == 1), None)
        if along is None:
            raise Refusal("neighbours along no axis lie side by side in its result")
        turned = [a for a in statement.inputs if a.stride_of(along) not in (0, 1)]
        if len(turned) != 1:
            raise Refusal(f"{len(turned)} operands lie turned, not one")
        (source,) = turned
        if sum(a.buffer == source.buffer for a in statement.inputs) > 1:
            raise Refusal("its operand is read in two orders")
        across = next((a for a in axes if source.stride_of(a) == 1), None)
        if across is None or _is_short(statement, along, across):
            raise Refusal("its operand has no neighbours along another axis")
        return TransposePlan(statement, source, along, across)

    def write(self, plan: TransposePlan) -> None:
        _Squares(plan).write()


def _is_short(statement: Statement, *axes: int) -> bool:
    extents = [statement.extents[axis] for axis in axes]
    return any(isinstance(e, int) and e < _SHORTEST for e in extents)


@dataclass
class _Squares:
    plan: TransposePlan

    def write(self) -> None:
        """A block for each square."""
        plan, extents = self.plan, list(self.plan.statement.extents)
        grid = list(extents)
        for axis in (plan.along, plan.across):
            grid[axis] = ceil_div(extents[axis], _SIDE)
        element = plan.source.buffer.type.element_type

        def thread(block: ir.Value, number: ir.Value) -> None:
            corner = unflatten(block, grid)
            for axis in (plan.along, plan.across):
                corner[axis] = multiply(corner[axis], _SIDE)
            square = alloc_shared([_SIDE, _SIDE + 1], element)
            place, row = rem(number, _SIDE), div(number, _SIDE)

            def read(points: dict[int, Extent], along: Extent, across: Extent) -> None:
                where = plan.source.indices([points[a] for a in range(len(grid))])
                value = op("memref.load", element, plan.source.buffer, *where)
                op("memref.store", None, value, square, index(along), index(across))

            def compute(
                points: dict[int, Extent], along: Extent, across: Extent
            ) -> None:
                def relocate(
                    buffer: ir.Value, where: list[ir.Value]
                ) -> tuple[ir.Value, list[ir.Value]]:
                    if buffer == plan.source.buffer:
                        return square, [index(along), index(across)]
                    return buffer, where

                loops = StatementLoops(plan.statement, points, relocate, {})
                loops.emit_point(None, 1)

            for first in range(0, _SIDE, _ROWS):
                self._at(corner, add(row, first), place, read)
            barrier()
            for first in range(0, _SIDE, _ROWS):
                self._at(corner, place, add(row, first), compute)

        launch(product(grid), _SIDE * _ROWS, thread)

    def _at(
        self,
        corner: list[Extent],
        along: Extent,
        across: Extent,
        body: Callable[[dict[int, Extent], Extent, Extent], None],
    ) -> None:
        """``body`` at a place of a square, if it lies inside of the domain."""
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
