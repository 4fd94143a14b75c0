"""What follows the second product of attention, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.contraction_axes import merged
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    constant,
    index,
    lane_of,
    less,
    op,
    product,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import alloc_private, if_less
from relax_mlir.schedules.statement_loops import StatementLoops

__all__ = ["Results"]


class Results:
    """Writes the results of a block, at the top of a launch.

    Args:
        heads: of the block; of_product: the same in the axes of the second product.
        lanes: neighbouring columns that a thread has.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        heads: Sequence[Extent],
        of_product: Mapping[int, Extent],
        lanes: int,
    ) -> None:
        self._plan, self._heads, self._outer = plan, heads, of_product
        values = plan.attention.values
        extents = values.anchor.extents
        columns = merged(values.n, extents, [values.b])
        self._width = product([axis.extent for axis in columns])
        self._lanes = lanes
        is_even = isinstance(self._width, int) and self._width % lanes == 0
        self._epilogue = Epilogue(
            values.anchor, values.maps, values.n, lanes if is_even else 1
        )
        statements = (plan.top, plan.total, *plan.numbers)
        self._numbers = {
            s.outputs[0].buffer: alloc_private(
                [1], s.outputs[0].buffer.type.element_type
            )
            for s in statements
        }

    def write(
        self,
        row: Extent,
        top: ir.Value,
        total: ir.Value,
        sums: Sequence[tuple[Extent, ir.Value]],
    ) -> None:
        """A row of the results, if there is such a row.

        Args:
            top, total: its greatest score and the sum of its exponentials.
            sums: where in the row columns of the second product begin, and those.
        """
        *_, rows = self._plan.attention.extents

        def write() -> None:
            self._write_numbers(row, top, total)
            factor = self._factor()
            for column, value in sums:
                if factor is not None:
                    lanes = self._lanes
                    spread = broadcast(factor, lanes) if lanes > 1 else factor
                    value = op("arith.mulf", value.type, value, spread)
                self._write_columns(row, column, value)

        if_less(row, rows, write)

    def _relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Numbers of a row stay with the thread."""
        if buffer not in self._numbers:
            return buffer, where
        return self._numbers[buffer], [index(0)]

    def _write_numbers(self, row: Extent, top: ir.Value, total: ir.Value) -> None:
        """The numbers of a row, each where those after it read it."""
        plan = self._plan
        for statement, value in ((plan.top, top), (plan.total, total)):
            memory = self._numbers[statement.outputs[0].buffer]
            op("memref.store", None, value, memory, index(0))
        for statement in plan.numbers:
            axes = range(len(statement.kinds))
            points = {**dict.fromkeys(axes, 0), **dict(enumerate([*self._heads, row]))}
            StatementLoops(statement, points, self._relocate, {}).emit_point(None, 1)

    def _factor(self) -> ir.Value | None:
        """What weights were not yet scaled by: 0 where there is no key, hence no weight."""
        factor, keys = self._plan.factor, self._plan.attention.keys
        if factor is None:
            return None
        memory = self._numbers[factor.buffer]
        f32 = ir.F32Type.get()
        number = op("memref.load", memory.type.element_type, memory, index(0))
        if factor.is_divisor:
            number = op("arith.divf", f32, constant(1.0, f32), number)
        if isinstance(keys, int):
            return number
        return op("arith.select", f32, less(0, keys), number, constant(0.0, f32))

    def _write_columns(self, row: Extent, column: Extent, value: ir.Value) -> None:
        """Neighbours of a row; one by one where some may lie outside."""
        values = self._plan.attention.values
        at = {**self._outer, values.m[-1]: row}
        epilogue = replace(self._epilogue, relocate=self._relocate)
        for lane in range(0, self._lanes, epilogue.lanes):
            place, part = add(column, lane), value
            if epilogue.lanes < self._lanes:
                part = lane_of(value, lane)

            def store(part: ir.Value = part, place: Extent = place) -> None:
                epilogue.store(part, {**at, values.n[-1]: place}, None)

            if_less(place, self._width, store)
