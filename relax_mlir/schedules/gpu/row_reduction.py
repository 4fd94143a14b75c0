"""RowReduction rule: softmax, norms, reductions of contiguous rows; a warp or block per row.

The statements of a kernel share their outer axes, the rows. The threads of a row iterate over
it together, a vector each at a time. Reductions are combined by shuffles within a warp, and
through shared memory across warps. A temporary is either a scalar per row, which all threads
of the row hold, or as long as the row, and then each thread caches its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    ceil_div,
    constant,
    div,
    for_loop,
    index,
    less,
    maximum,
    minimum,
    multiply,
    op,
    prefetch,
    product,
    rem,
    subtract,
    unflatten,
)
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.gpu.launch import (
    SM_COUNT,
    WARP_SIZE,
    alloc_private,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
    wait_for_previous_grid,
)
from relax_mlir.schedules.gpu.match_rows import RowPlan, inner_axes, plan_rows
from relax_mlir.schedules.gpu.pointwise import with_scalar_fallback
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Kernel, Statement
from relax_mlir.schedules.statement_loops import StatementLoops, combiners_of

__all__ = ["RowReduction"]

_THREADS = 256  # per block, with a row per warp
_ENOUGH_BLOCKS = SM_COUNT * 2
_PREFETCHED = 4  # vectors per thread


class RowReduction(GpuRule[RowPlan]):
    """Row-wise kernels: a warp or a thread block for each row."""

    def plan(self, kernel: Kernel) -> RowPlan:
        """Matches statements with common outer axes, one of which reduces the inner ones."""
        return plan_rows(kernel)

    def write(self, plan: RowPlan) -> None:
        with_scalar_fallback(
            lambda: _RowKernel(plan).write(),
            lambda: _RowKernel(replace(plan, lanes=1)).write(),
        )


@dataclass
class _RowKernel:
    plan: RowPlan
    registers: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.threads = plan.threads
        self.depth = len(plan.rows)
        self.vectors = [*plan.domain[:-1], div(plan.domain[-1], plan.lanes)]

    def write(self) -> None:
        """Emits a launch with a warp or a thread block for each row."""
        rows = product(self.plan.rows)
        per_block = _THREADS // WARP_SIZE if self.threads == WARP_SIZE else 1
        while (
            per_block > 1
            and isinstance(rows, int)
            and rows < per_block * _ENOUGH_BLOCKS
        ):
            per_block //= 2

        is_whole = per_block == 1 or (isinstance(rows, int) and rows % per_block == 0)

        def thread(block: ir.Value, number: ir.Value) -> None:
            row = add(multiply(block, per_block), div(number, self.threads))
            self.number = rem(number, self.threads)
            if self.plan.prefetched:
                self._prefetch(row if is_whole else minimum(row, subtract(rows, 1)))

            def write() -> None:
                self._row(unflatten(index(row), self.plan.rows))

            if is_whole:
                write()
            else:
                if_less(row, rows, write)

        launch(ceil_div(rows, per_block), per_block * self.threads, thread)

    def _prefetch(self, row: IndexLike) -> None:
        """Prefetches a thread's first vectors of some buffers; then waits for the last grid."""
        count = product(self.vectors)
        if not isinstance(count, int):
            return
        self.row = dict(enumerate(unflatten(index(row), self.plan.rows)))
        prefetched_accesses = [
            (statement, access)
            for statement in self.plan.statements
            for access in statement.inputs
            if inner_axes(statement, self.depth)
            and access.buffer in self.plan.prefetched
        ]
        for iteration in range(min(_PREFETCHED, ceil_div(count, self.threads))):
            vector = add(self.number, iteration * self.threads)
            if (iteration + 1) * self.threads > count:
                vector = minimum(vector, count - 1)
            for statement, access in prefetched_accesses:
                points = self._loops(statement, vector, 0).points
                prefetch(access.buffer, *access.indices(points))
        wait_for_previous_grid()

    def _row(self, where: Sequence[IndexLike]) -> None:
        """Emits all statements for one row."""
        self.row = dict(enumerate(where))
        for buffer in self.plan.scalars:
            self.registers[buffer] = alloc_private([1], buffer.type.element_type)
        for buffer in self.plan.cached:
            iterations = self.plan.iterations
            assert iterations is not None  # plan_rows has checked
            shape = [iterations * self.plan.lanes]
            self.registers[buffer] = alloc_private(shape, buffer.type.element_type)
        for statement in self.plan.statements:
            if statement.is_reduction:
                self._reduce(statement)
            elif inner_axes(statement, self.depth):
                self._write_elementwise(statement)
            else:
                self._write_scalar(statement)

    def _loops(
        self, statement: Statement, vector: IndexLike | None, iteration: IndexLike
    ) -> StatementLoops:
        """The loops of a statement at a vector of the row; None for the start of the row."""
        axes = range(self.depth, len(statement.kinds))
        points: dict[int, IndexLike] = {**self.row, **dict.fromkeys(axes, 0)}
        if vector is not None:
            *outer, last = unflatten(index(vector), self.vectors)
            inner = [*outer, multiply(last, self.plan.lanes)]
            points.update(zip(inner_axes(statement, self.depth), inner, strict=True))
        return StatementLoops(statement, points, self._relocate_at(iteration), {})

    def _vector_axis(self, statement: Statement) -> int | None:
        """The vectorized axis of a statement, if any."""
        return inner_axes(statement, self.depth)[-1] if self.plan.lanes > 1 else None

    def _relocate_at(
        self, iteration: IndexLike
    ) -> Callable[..., tuple[ir.Value, list[ir.Value]]]:
        """Redirects accesses to temporaries to registers, at an iteration of a thread."""

        def relocate(
            buffer: ir.Value, where: list[ir.Value]
        ) -> tuple[ir.Value, list[ir.Value]]:
            if buffer not in self.registers:
                return buffer, where
            is_cached = buffer in self.plan.cached
            place = multiply(iteration, self.plan.lanes) if is_cached else 0
            return self.registers[buffer], [index(place)]

        return relocate

    def _for_each_vector(
        self,
        body: Callable[[IndexLike, IndexLike, Sequence[ir.Value]], Sequence[ir.Value]],
        carried: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """Emits ``body(iteration, vector, carried)`` for all vectors of a row of a thread.

        Fully unrolled if temporaries are cached in registers. Else a loop, with a constant
        trip count if sizes are static: it is unrolled later, so that many loads are in flight.
        """
        count, threads = product(self.vectors), self.threads
        if not isinstance(count, int):
            return for_loop(
                self.number,
                count,
                threads,
                lambda vector, *before: body(0, vector, before),
                carried,
            )
        full_count, remainder = divmod(count, threads)
        values = list(carried)
        if self.plan.cached:
            for iteration in range(full_count):
                values = list(
                    body(iteration, add(self.number, iteration * threads), values)
                )
        else:

            def step(iteration: ir.Value, *before: ir.Value) -> Sequence[ir.Value]:
                return body(0, add(self.number, multiply(iteration, threads)), before)

            values = for_loop(0, full_count, 1, step, values)
        if remainder:
            vector = add(self.number, full_count * threads)
            values = self._emit_if_in_range(vector, count, full_count, body, values)
        return values

    def _emit_if_in_range(
        self,
        vector: IndexLike,
        count: IndexLike,
        iteration: int,
        body: Callable[[IndexLike, IndexLike, Sequence[ir.Value]], Sequence[ir.Value]],
        values: list[ir.Value],
    ) -> list[ir.Value]:
        """Emits ``body`` for a vector that only some threads have."""
        return for_loop(
            0,
            minimum(1, maximum(0, subtract(count, vector))),
            1,
            lambda _, *before: body(iteration, vector, before),
            values,
        )

    def _write_elementwise(self, statement: Statement) -> None:
        """Emits an elementwise statement: each thread computes its part of the row."""

        def body(
            iteration: IndexLike, vector: IndexLike, _: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            loops = self._loops(statement, vector, iteration)
            loops.emit_point(self._vector_axis(statement), self.plan.lanes)
            return ()

        self._for_each_vector(body, ())

    def _write_scalar(self, statement: Statement) -> None:
        """Emits a scalar of the row: all threads compute it, one stores it to memory."""
        loops = self._loops(statement, None, 0)
        self._emit_once(statement, lambda: loops.emit_point(None, 1))

    def _emit_once(self, statement: Statement, body: Callable[[], None]) -> None:
        """Emits code on all threads if it writes registers, else on one thread."""
        in_registers = all(a.buffer in self.registers for a in statement.outputs)
        if in_registers:
            body()
        else:
            if_less(self.number, 1, body)

    def _reduce(self, statement: Statement) -> None:
        """Emits a reduction: per-thread partial results, then across the threads."""
        combiners = combiners_of(statement)
        assert combiners is not None
        lanes = self.plan.lanes
        elements = [a.buffer.type.element_type for a in statement.outputs]
        carried = [
            broadcast(constant(w.identity, e), lanes)
            if lanes > 1
            else constant(w.identity, e)
            for w, e in zip(combiners, elements, strict=True)
        ]

        def body(
            iteration: IndexLike, vector: IndexLike, before: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            loops = self._loops(statement, vector, iteration)
            return loops.emit_update(self._vector_axis(statement), lanes, before)

        partials = self._for_each_vector(body, carried)
        totals = [
            self._reduce_threads(
                combiner.lanes_of(partial_result) if lanes > 1 else partial_result,
                combiner,
                element,
            )
            for partial_result, combiner, element in zip(
                partials, combiners, elements, strict=True
            )
        ]
        loops = self._loops(statement, None, 0)
        self._emit_once(statement, lambda: loops.emit_total(None, 1, totals, combiners))

    def _reduce_threads(
        self, value: ir.Value, combiner: Combiner, element: ir.Type
    ) -> ir.Value:
        """Emits an all-reduce across the threads of a row."""
        value = _reduce_warp(value, combiner, WARP_SIZE)
        warps = self.threads // WARP_SIZE
        if warps == 1:
            return value
        partials = alloc_shared([warps], element)
        warp, lane = div(self.number, WARP_SIZE), rem(self.number, WARP_SIZE)

        def store_partial() -> None:
            op("memref.store", None, value, partials, index(warp))

        if_less(lane, 1, store_partial)
        barrier()
        width = 1 << (warps - 1).bit_length()
        place = rem(lane, width)
        own = op("memref.load", element, partials, index(minimum(place, warps - 1)))
        if width != warps:
            identity = constant(combiner.identity, element)
            own = op("arith.select", element, less(place, warps), own, identity)
        return _reduce_warp(own, combiner, width)


def _reduce_warp(value: ir.Value, combiner: Combiner, width: int) -> ir.Value:
    """Emits a butterfly all-reduce across ``width`` adjacent lanes.

    Args:
        width: a power of two.
    """
    distance = width // 2
    while distance:
        value = combiner.combine(value, shuffle_xor(value, distance))
        distance //= 2
    return value
