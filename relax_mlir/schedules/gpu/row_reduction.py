"""RowReduction: softmax, norms and sums along neighbours: threads share a row.

The statements of a kernel share their outer axes, the rows; the rest of each is the domain
of a row, which the threads that share it walk together, some neighbours at a time. A sum is
combined among them by shuffles, and among warps through shared memory. What lies between
the statements is one number of the row, which all of its threads have, or as long as the
row, of which each thread keeps what it has computed itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from relax_mlir.indexing import buffer_sizes
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
    is_one,
    maximum,
    minimum,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
)
from relax_mlir.schedules.gpu.launch import (
    ACCESS_BYTES,
    WARP,
    alloc_private,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
)
from relax_mlir.schedules.gpu.points import or_one_by_one
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import Refusal, check_statements
from relax_mlir.schedules.statement_loops import StatementLoops, combinations_of
from relax_mlir.schedules.vector_axis import lanes_of

__all__ = ["RowReduction"]

_THREADS = 256  # of a block whose warps have a row each
_MOST_THREADS = 1024  # that share a row
_KEPT_WORDS = 32  # of registers, for what a thread keeps of a row
_FEW_ROWS = 1024  # that are too few for a thread each
_WARP_ROW = 1024  # elements; a longer row is worth several warps


@dataclass(frozen=True)
class RowPlan:
    """How the statements of a kernel share a row.

    Attributes:
        statements: in order.
        rows: extents of the axes that they share.
        domain: extents of a row.
        scalars: buffers between them of one element a row.
        kept: those as long as a row, of which each thread keeps its own part.
        lanes: neighbours that a thread takes at once.
    """

    statements: tuple[Statement, ...]
    rows: tuple[Extent, ...]
    domain: tuple[Extent, ...]
    scalars: tuple[ir.Value, ...]
    kept: tuple[ir.Value, ...]
    lanes: int


class RowReduction(GpuRule[RowPlan]):
    """Threads share a row of what all statements of a kernel walk along."""

    def plan(self, kernel: Kernel) -> RowPlan:
        """Statements with the same outer axes, of which one sums up the rest."""
        check_statements(kernel)
        statements = tuple(kernel.statements)
        total = next((s for s in statements if s.is_reduction), None)
        if total is None:
            raise Refusal("it has no sum")
        depth = _depth(total)
        rows = total.extents[:depth]
        domain = tuple(total.extents[axis] for axis in _inner(total, depth))
        if not domain:
            raise Refusal("its sum has one term")
        for statement in statements:
            _check(statement, rows, domain, kernel)
        scalars, kept = _sorted_temporaries(kernel, statements, depth)
        _check_sizes(statements, rows, domain)
        lanes = _lanes(statements, domain, depth)
        if kept and _kept(domain, lanes, kept) is None:
            raise Refusal("its rows are longer than what threads can keep of them")
        return RowPlan(statements, rows, domain, scalars, kept, lanes)

    def write(self, plan: RowPlan) -> None:
        or_one_by_one(
            lambda: _Rows(plan).write(), lambda: _Rows(replace(plan, lanes=1)).write()
        )


def _depth(total: Statement) -> int:
    """How many axes tell the rows of a sum: those before it, without ones at the end."""
    depth = len(total.kinds.rstrip("R"))
    while depth and is_one(total.extents[depth - 1]):
        depth -= 1
    return depth


def _inner(statement: Statement, depth: int) -> list[int]:
    """The axes along a row, without those of one point."""
    axes = range(depth, len(statement.kinds))
    return [axis for axis in axes if not is_one(statement.extents[axis])]


def _check(
    statement: Statement,
    rows: Sequence[Extent],
    domain: Sequence[Extent],
    kernel: Kernel,
) -> None:
    """Refuse what does not walk along rows.

    Raises:
        Refusal: it does not.
    """
    depth = len(rows)
    inner = _inner(statement, depth)
    kinds = {statement.kinds[axis] for axis in inner}
    if statement.extents[:depth] != rows or "R" in statement.kinds[:depth]:
        raise Refusal("its statements do not share the axes of rows")
    is_whole = tuple(statement.extents[axis] for axis in inner) == domain
    if inner and (not is_whole or len(kinds) > 1):
        raise Refusal("its statements do not walk along the same rows")
    if statement.is_reduction:
        if not is_whole:
            raise Refusal("its sums are not over the same rows")
        if combinations_of(statement) is None:
            raise Refusal("the order of its sum may matter")
    results = kernel.written.difference(kernel.temporaries)
    read = {access.buffer for access in statement.inputs}
    if read & results or statement.read_within & kernel.written:
        raise Refusal("a statement reads what others of its threads have written")


def _check_sizes(
    statements: Sequence[Statement], rows: Sequence[Extent], domain: Sequence[Extent]
) -> None:
    """Refuse what a thread for each row does better.

    Raises:
        Refusal: rows are short, or there are many whose neighbours lie side by side.
    """
    if point_count(domain) < WARP:
        if point_count(rows) < _FEW_ROWS:
            return
        raise Refusal("its rows are shorter than a warp")
    walked = [
        access.stride_of(axis)
        for s in statements
        for axis in _inner(s, len(rows))[-1:]
        for access in s.inputs
    ]
    if 1 not in walked:
        raise Refusal("the neighbours along its rows lie apart")


def _sorted_temporaries(
    kernel: Kernel, statements: Sequence[Statement], depth: int
) -> tuple[tuple[ir.Value, ...], tuple[ir.Value, ...]]:
    """The buffers between statements: of one element a row, and as long as a row.

    Raises:
        Refusal: one is neither, or is not read where it was written.
    """
    scalars: list[ir.Value] = []
    kept: list[ir.Value] = []
    for buffer in kernel.temporaries:
        accesses = [
            (s, a) for s in statements for a in s.accesses if a.buffer == buffer
        ]
        if all(_is_at(s, a, depth, ()) for s, a in accesses):
            scalars.append(buffer)
        elif all(_is_at(s, a, depth, _inner(s, depth)) for s, a in accesses):
            kept.append(buffer)
        else:
            raise Refusal("a statement reads what another place of the row computes")
    return tuple(scalars), tuple(kept)


def _is_at(
    statement: Statement, access: Access, depth: int, inner: Sequence[int]
) -> bool:
    """Whether an access is to the element that the row and some axes tell, no other."""
    rows = [axis for axis in range(depth) if not is_one(statement.extents[axis])]
    sizes = buffer_sizes(access.buffer)
    told = [
        form.single_axis
        for form, size in zip(access.forms, sizes, strict=True)
        if size is None or not is_one(size)
    ]
    return told == [*rows, *inner]


def _lanes(
    statements: Sequence[Statement], domain: Sequence[Extent], depth: int
) -> int:
    """How many neighbours along the last axis a thread takes at once."""
    length = domain[-1]
    lanes = min(lanes_of(s, 8 * ACCESS_BYTES) for s in statements)
    strides = {
        access.stride_of(axis)
        for s in statements
        for axis in _inner(s, depth)[-1:]
        for access in s.accesses
    }
    if not isinstance(length, int) or not strides <= {0, 1}:
        return 1
    return math.gcd(length, lanes)


def _kept(
    domain: Sequence[Extent], lanes: int, buffers: Sequence[ir.Value]
) -> int | None:
    """How many times a thread takes its neighbours of a row; None for too many."""
    if not all(isinstance(e, int) for e in domain):
        return None
    threads = _threads(domain, lanes)
    turns = -(-(math.prod(domain) // lanes) // threads)
    words = sum(max(1, b.type.element_type.width // 32) for b in buffers)
    # The more threads a block has, the fewer registers each of them.
    most = _KEPT_WORDS * (1 if threads == _MOST_THREADS else 2)
    return turns if turns * lanes * words <= most else None


def _threads(domain: Sequence[Extent], lanes: int) -> int:
    """How many threads share a row."""
    if not all(isinstance(e, int) for e in domain):
        return _THREADS
    elements: int = math.prod(domain)
    if elements <= _WARP_ROW:
        return WARP
    wanted = elements // (4 * lanes)
    return max(WARP, min(_MOST_THREADS, 1 << (wanted - 1).bit_length()))


@dataclass
class _Rows:
    plan: RowPlan
    registers: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.threads = _threads(plan.domain, plan.lanes)
        self.depth = len(plan.rows)
        self.pieces = [*plan.domain[:-1], div(plan.domain[-1], plan.lanes)]

    def write(self) -> None:
        """A warp or a block for each row."""
        rows = product(self.plan.rows)
        per_block = max(1, _THREADS // self.threads) if self.threads == WARP else 1

        def thread(block: ir.Value, number: ir.Value) -> None:
            row = add(multiply(block, per_block), div(number, self.threads))
            self.number = rem(number, self.threads)
            self.thread = number

            def write() -> None:
                self._row(unflatten(index(row), self.plan.rows))

            if per_block == 1 or (isinstance(rows, int) and rows % per_block == 0):
                write()
            else:
                if_less(row, rows, write)

        launch(ceil_div(rows, per_block), per_block * self.threads, thread)

    def _row(self, where: Sequence[Extent]) -> None:
        """All statements, for one row."""
        self.row = dict(enumerate(where))
        turns = _kept(self.plan.domain, self.plan.lanes, self.plan.kept) or 0
        for buffer in self.plan.scalars:
            self.registers[buffer] = alloc_private([1], buffer.type.element_type)
        for buffer in self.plan.kept:
            shape = [turns * self.plan.lanes]
            self.registers[buffer] = alloc_private(shape, buffer.type.element_type)
        for statement in self.plan.statements:
            if statement.is_reduction:
                self._reduce(statement)
            elif _inner(statement, self.depth):
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
            points.update(zip(_inner(statement, self.depth), inner, strict=True))
        return StatementLoops(statement, points, self._relocate_at(turn), {})

    def _vector_axis(self, statement: Statement) -> int | None:
        """Along which a thread takes several neighbours."""
        return _inner(statement, self.depth)[-1] if self.plan.lanes > 1 else None

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

        All turns are written out where a thread keeps numbers from one to the other.
        """
        count, values = product(self.pieces), list(carried)
        if not self.plan.kept:
            return for_loop(
                self.number,
                count,
                self.threads,
                lambda piece, *before: body(0, piece, before),
                values,
            )
        for turn in range(-(-int(count) // self.threads)):
            piece = add(self.number, turn * self.threads)
            is_whole = (turn + 1) * self.threads <= count
            if is_whole:
                values = list(body(turn, piece, values))
            else:
                values = self._where_there_is(piece, count, turn, body, values)
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
        mine = op("memref.load", element, parts, index(rem(lane, warps)))
        return _in_warp(mine, way, warps)


def _in_warp(value: ir.Value, way: Combination, width: int) -> ir.Value:
    """The parts of ``width`` neighbouring threads combined, in all of them."""
    distance = width // 2
    while distance:
        value = way.of_two(value, shuffle_xor(value, distance))
        distance //= 2
    return value
