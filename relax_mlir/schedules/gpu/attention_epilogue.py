"""Epilogue of attention: normalization, elementwise statements, stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    constant,
    extract_lane,
    index,
    less,
    op,
    product,
)
from relax_mlir.schedules.contraction_axes import merge_axes
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import alloc_private, if_less
from relax_mlir.schedules.statement_loops import StatementLoops

__all__ = ["AttentionEpilogue"]


class AttentionEpilogue:
    """Emitter of the epilogue; created at the top of a launch.

    Args:
        heads: the head's indices; matmul_point: the same by the axes of the second matmul.
        lanes: adjacent columns of an accumulator vector of a thread.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        heads: Sequence[IndexLike],
        matmul_point: Mapping[int, IndexLike],
        lanes: int,
    ) -> None:
        self._plan, self._heads, self._outer = plan, heads, matmul_point
        values = plan.attention.values
        extents = values.anchor.extents
        columns = merge_axes(values.n, extents, [values.b])
        self._width = product([axis.extent for axis in columns])
        self._lanes = lanes
        is_even = isinstance(self._width, int) and self._width % lanes == 0
        self._epilogue = Epilogue(
            values.anchor, values.maps, values.n, lanes if is_even else 1
        )
        statements = (plan.row_max, plan.row_sum, *plan.row_scalars)
        self._row_registers = {
            s.outputs[0].buffer: alloc_private(
                [1], s.outputs[0].buffer.type.element_type
            )
            for s in statements
        }

    def write(
        self,
        row: IndexLike,
        row_max: ir.Value,
        row_sum: ir.Value,
        accumulators: Sequence[tuple[IndexLike, ir.Value]],
    ) -> None:
        """Emits the epilogue of a row, predicated at the end of the rows.

        Args:
            row_max, row_sum: maximum and sum of exponentials of the row.
            accumulators: pairs of the first column and a vector.
        """
        *_, rows = self._plan.attention.extents

        def write() -> None:
            self._write_row_scalars(row, row_max, row_sum)
            normalization = self._normalization()
            for column, value in accumulators:
                if normalization is not None:
                    lanes = self._lanes
                    broadcast_factor = (
                        broadcast(normalization, lanes) if lanes > 1 else normalization
                    )
                    value = op("arith.mulf", value.type, value, broadcast_factor)
                self._write_columns(row, column, value)

        if_less(row, rows, write)

    def _relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Redirects accesses to row statistics to registers."""
        if buffer not in self._row_registers:
            return buffer, where
        return self._row_registers[buffer], [index(0)]

    def _write_row_scalars(
        self, row: IndexLike, row_max: ir.Value, row_sum: ir.Value
    ) -> None:
        """Emits the statements on row statistics (e.g. 1 / sum), in registers."""
        plan = self._plan
        for statement, value in ((plan.row_max, row_max), (plan.row_sum, row_sum)):
            memory = self._row_registers[statement.outputs[0].buffer]
            op("memref.store", None, value, memory, index(0))
        for statement in plan.row_scalars:
            axes = range(len(statement.kinds))
            points = {**dict.fromkeys(axes, 0), **dict(enumerate([*self._heads, row]))}
            StatementLoops(statement, points, self._relocate, {}).emit_point(None, 1)

    def _normalization(self) -> ir.Value | None:
        """The deferred normalization of the weights; 0 for rows without keys."""
        normalization, keys = self._plan.normalization, self._plan.attention.keys
        if normalization is None:
            return None
        memory = self._row_registers[normalization.buffer]
        f32 = ir.F32Type.get()
        number = op("memref.load", memory.type.element_type, memory, index(0))
        if normalization.is_divisor:
            number = op("arith.divf", f32, constant(1.0, f32), number)
        if isinstance(keys, int):
            return number
        return op("arith.select", f32, less(0, keys), number, constant(0.0, f32))

    def _write_columns(
        self, row: IndexLike, column: IndexLike, value: ir.Value
    ) -> None:
        """Emits the stores of a vector of a row; per element if it may cross the edge."""
        values = self._plan.attention.values
        at = {**self._outer, values.m[-1]: row}
        epilogue = replace(self._epilogue, relocate=self._relocate)
        for lane in range(0, self._lanes, epilogue.lanes):
            place, element = add(column, lane), value
            if epilogue.lanes < self._lanes:
                element = extract_lane(value, lane)

            def store(element: ir.Value = element, place: IndexLike = place) -> None:
                epilogue.store(element, {**at, values.n[-1]: place}, None)

            if_less(place, self._width, store)
