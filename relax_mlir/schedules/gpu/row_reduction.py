"""RowReduction: softmax, norms and sums along neighbours: threads share a row.

The statements of a kernel share their outer axes, the rows; the rest of each is the domain
of a row, which the threads that share it walk together, some neighbours at a time. A sum is
combined among them by shuffles, and among warps through shared memory. What lies between
the statements is one number of the row, which all of its threads have, or as long as the
row, of which each thread keeps what it has computed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.emit import (
    Extent,
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
from relax_mlir.schedules.gpu.launch import (
    PROCESSORS,
    WARP,
    alloc_private,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
    wait_for_launch_before,
)
from relax_mlir.schedules.gpu.points import or_one_by_one
from relax_mlir.schedules.gpu.row_plan import RowPlan, inner_axes, plan_rows
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Kernel, Statement
from relax_mlir.schedules.statement_loops import StatementLoops, combinations_of

__all__ = ["RowReduction"]

_THREADS = 256  # of a block whose warps have a row each
_ENOUGH_BLOCKS = PROCESSORS * 2
_ASKED_TURNS = 4  # of a thread, ahead


class RowReduction(GpuRule[RowPlan]):
    """Threads share a row of what all statements of a kernel walk along."""

    def plan(self, kernel: Kernel) -> RowPlan:
        """Statements with the same outer axes, of which one sums up the rest."""
        return plan_rows(kernel)

    def write(self, plan: RowPlan) -> None:
        or_one_by_one(
            lambda: _Rows(plan).write(), lambda: _Rows(replace(plan, lanes=1)).write()
        )


@dataclass
class _Rows:
    plan: RowPlan
    registers: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.threads = plan.threads
        self.depth = len(plan.rows)
        self.pieces = [*plan.domain[:-1], div(plan.domain[-1], plan.lanes)]

    def write(self) -> None:
        """A warp or a block for each row."""
        rows = product(self.plan.rows)
        per_block = _THREADS // WARP if self.threads == WARP else 1
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
            if self.plan.ahead:
                self._ask_ahead(row if is_whole else minimum(row, subtract(rows, 1)))

            def write() -> None:
                self._row(unflatten(index(row), self.plan.rows))

            if is_whole:
                write()
            else:
                if_less(row, rows, write)

        launch(ceil_div(rows, per_block), per_block * self.threads, thread)

    def _ask_ahead(self, row: Extent) -> None:
        """Ask for what a thread reads of some buffers at its first turns; then wait."""
        count = product(self.pieces)
        if not isinstance(count, int):
            return
        self.row = dict(enumerate(unflatten(index(row), self.plan.rows)))
        asked = [
            (statement, access)
            for statement in self.plan.statements
            for access in statement.inputs
            if inner_axes(statement, self.depth) and access.buffer in self.plan.ahead
        ]
        for turn in range(min(_ASKED_TURNS, ceil_div(count, self.threads))):
            piece = add(self.number, turn * self.threads)
            if (turn + 1) * self.threads > count:
                piece = minimum(piece, count - 1)
            for statement, access in asked:
                points = self._loops(statement, piece, 0).points
                prefetch(access.buffer, *access.indices(points))
        wait_for_launch_before()

    def _row(self, where: Sequence[Extent]) -> None:
        """All statements, for one row."""
        self.row = dict(enumerate(where))
        for buffer in self.plan.scalars:
            self.registers[buffer] = alloc_private([1], buffer.type.element_type)
        for buffer in self.plan.kept:
            turns = self.plan.turns
            assert turns is not None  # of what may be kept
            shape = [turns * self.plan.lanes]
            self.registers[buffer] = alloc_private(shape, buffer.type.element_type)
        for statement in self.plan.statements:
            if statement.is_reduction:
                self._reduce(statement)
            elif inner_axes(statement, self.depth):
                self._map(statement)
            else:
                self._write_scalar(statement)

    def _loops(
        self, statement: Statement, piece: Extent | None, turn: Extent
    ) -> StatementLoops:
        """A statement at a piece of a row; at its beginning, if it is None."""
        axes = range(self.depth, len(statement.kinds))
        points: dict[int, Extent] = {**self.row, **dict.fromkeys(axes, 0)}
        if piece is not None:
            *outer, last = unflatten(index(piece), self.pieces)
            inner = [*outer, multiply(last, self.plan.lanes)]
            points.update(zip(inner_axes(statement, self.depth), inner, strict=True))
        return StatementLoops(statement, points, self._relocate_at(turn), {})

    def _vector_axis(self, statement: Statement) -> int | None:
        """Along which a thread takes several neighbours."""
        return inner_axes(statement, self.depth)[-1] if self.plan.lanes > 1 else None

    def _relocate_at(
        self, turn: Extent
    ) -> Callable[..., tuple[ir.Value, list[ir.Value]]]:
        """Where the buffers between statements are, at one turn of a thread."""

        def relocate(
            buffer: ir.Value, where: list[ir.Value]
        ) -> tuple[ir.Value, list[ir.Value]]:
            if buffer not in self.registers:
                return buffer, where
            is_kept = buffer in self.plan.kept
            place = multiply(turn, self.plan.lanes) if is_kept else 0
            return self.registers[buffer], [index(place)]

        return relocate

    def _each_turn(
        self,
        body: Callable[[Extent, Extent, Sequence[ir.Value]], Sequence[ir.Value]],
        carried: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """``body(turn, piece, carried)`` for all pieces of a row that a thread takes.

        All turns are written out where a thread keeps numbers from one to the other. Else
        they are a loop, of a known number of turns if sizes are: it is unrolled then, and
        a thread asks for much of its row before it waits.
        """
        count, threads = product(self.pieces), self.threads
        if not isinstance(count, int):
            return for_loop(
                self.number,
                count,
                threads,
                lambda piece, *before: body(0, piece, before),
                carried,
            )
        whole, rest = divmod(count, threads)
        values = list(carried)
        if self.plan.kept:
            for turn in range(whole):
                values = list(body(turn, add(self.number, turn * threads), values))
        else:

            def step(turn: ir.Value, *before: ir.Value) -> Sequence[ir.Value]:
                return body(0, add(self.number, multiply(turn, threads)), before)

            values = for_loop(0, whole, 1, step, values)
        if rest:
            piece = add(self.number, whole * threads)
            values = self._where_there_is(piece, count, whole, body, values)
        return values

    def _where_there_is(
        self,
        piece: Extent,
        count: Extent,
        turn: int,
        body: Callable[[Extent, Extent, Sequence[ir.Value]], Sequence[ir.Value]],
        values: list[ir.Value],
    ) -> list[ir.Value]:
        """``body`` for a piece that only some threads have."""
        return for_loop(
            0,
            minimum(1, maximum(0, subtract(count, piece))),
            1,
            lambda _, *before: body(turn, piece, before),
            values,
        )

    def _map(self, statement: Statement) -> None:
        """Each thread its part of the row."""

        def body(
            turn: Extent, piece: Extent, _: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            loops = self._loops(statement, piece, turn)
            loops.emit_point(self._vector_axis(statement), self.plan.lanes)
            return ()

        self._each_turn(body, ())

    def _write_scalar(self, statement: Statement) -> None:
        """One number of a row: every thread computes it; one writes it where others see it."""
        loops = self._loops(statement, None, 0)
        self._once(statement, lambda: loops.emit_point(None, 1))

    def _once(self, statement: Statement, body: Callable[[], None]) -> None:
        """On all threads, or on one if that writes to a buffer of the kernel."""
        is_own = all(a.buffer in self.registers for a in statement.outputs)
        if is_own:
            body()
        else:
            if_less(self.number, 1, body)

    def _reduce(self, statement: Statement) -> None:
        """Each thread its part of a sum; then all of them together."""
        ways = combinations_of(statement)
        assert ways is not None
        lanes = self.plan.lanes
        elements = [a.buffer.type.element_type for a in statement.outputs]
        carried = [
            broadcast(constant(w.identity, e), lanes)
            if lanes > 1
            else constant(w.identity, e)
            for w, e in zip(ways, elements, strict=True)
        ]

        def body(
            turn: Extent, piece: Extent, before: Sequence[ir.Value]
        ) -> Sequence[ir.Value]:
            loops = self._loops(statement, piece, turn)
            return loops.emit_update(self._vector_axis(statement), lanes, before)

        parts = self._each_turn(body, carried)
        totals = [
            self._together(way.lanes_of(part) if lanes > 1 else part, way, element)
            for part, way, element in zip(parts, ways, elements, strict=True)
        ]
        loops = self._loops(statement, None, 0)
        self._once(statement, lambda: loops.emit_total(None, 1, totals, ways))

    def _together(
        self, value: ir.Value, way: Combination, element: ir.Type
    ) -> ir.Value:
        """The parts of all threads of a row, in all of them."""
        value = _in_warp(value, way, WARP)
        warps = self.threads // WARP
        if warps == 1:
            return value
        parts = alloc_shared([warps], element)
        warp, lane = div(self.number, WARP), rem(self.number, WARP)

        def put() -> None:
            op("memref.store", None, value, parts, index(warp))

        if_less(lane, 1, put)
        barrier()
        width = 1 << (warps - 1).bit_length()
        place = rem(lane, width)
        mine = op("memref.load", element, parts, index(minimum(place, warps - 1)))
        if width != warps:
            none = constant(way.identity, element)
            mine = op("arith.select", element, less(place, warps), mine, none)
        return _in_warp(mine, way, width)


def _in_warp(value: ir.Value, way: Combination, width: int) -> ir.Value:
    """The parts of ``width`` neighbouring threads combined, in all of them.

    Args:
        width: a power of two.
    """
    distance = width // 2
    while distance:
        value = way.of_two(value, shuffle_xor(value, distance))
        distance //= 2
    return value
