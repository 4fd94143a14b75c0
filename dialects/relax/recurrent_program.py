"""Programs of recurrent networks: all steps in one kernel.

Rows of the batch, a few at a time, and directions are independent tiles. In a tile the
steps follow each other: the products of the state with the weights, whose sums stay in
registers along the columns of the gates, then the functions of the cell along its units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar
from relax_mlir.dialects.tir.lanes import (
    fma,
    lanes_for,
    load_lanes,
    splat,
    store_lanes,
)

__all__ = ["Lanes", "StepWriter", "block_width", "write_steps"]

_MOST_ROWS = 16  # of a batch that share what is read of the weights
_SOME_ROWS = 8  # the same, of weights that stay in a core's cache, or an open batch
_CACHE_BYTES = 1 << 20
_MOST_SUMS = 16  # vectors of them in registers
_MOST_VECTORS = 8  # of a block of columns
_ALONE = 2  # rows up to which one after the other is faster than many at once


@dataclass(frozen=True)
class Lanes:
    """Neighbouring units, or columns, of one row.

    Attributes:
        row: of those that are written together.
        first: the first unit; count: how many there are.
    """

    row: Index | int
    first: Index | int
    count: int

    def load(self, buffer: Buffer) -> Scalar:
        """Their elements in a buffer of a vector per row."""
        return self.read(buffer, (self.row, self.first))

    def store(self, buffer: Buffer, value: Scalar) -> None:
        """Write their elements."""
        self.write(buffer, (self.row, self.first), value)

    def read(self, buffer: Buffer, where: Sequence[Index | int]) -> Scalar:
        """As many elements, from a place on."""
        return load_lanes(buffer, where, self.count)

    def write(
        self, buffer: Buffer, where: Sequence[Index | int], value: Scalar
    ) -> None:
        """Write as many elements, from a place on."""
        store_lanes(buffer, value, where, self.count)

    def number(self, value: Scalar) -> Scalar:
        """The same number for all of them."""
        return splat(value)


Start = Callable[[Lanes], Scalar]


@dataclass(frozen=True)
class Run:
    """The sequences of a few rows of the batch, in one direction.

    Attributes:
        direction: its number; first: of the rows.
        rows: how many are multiplied; count: how many there are.
        step: the number of the one that is being written.
        place: where in time it is, for each row.
        is_active: whether a row has that step, as 0 or 1; None if all rows do.
    """

    direction: Index | int
    first: Index | int
    rows: int
    count: Index | int
    step: Index | int = 0
    place: Callable[[Index | int], Index | int] = lambda row: 0
    is_active: Callable[[Index | int], Index] | None = None

    def row(self, number: Index | int) -> Index | int:
        """The place in the batch of a row; the last one's for a row that does not exist."""
        if self.rows == self.count:
            return number + self.first
        last = Index(Index.value_of(self.count - 1))
        return last.minimum(number) + self.first


@dataclass(frozen=True)
class _Part:
    """A vector of columns: of a gate and a block in it, from an offset on."""

    gate: Index | int
    block: Index | int
    offset: Index | int
    count: int


def block_width(size: int, lanes: int) -> int:
    """How many columns of a gate stand together, each step's weights side by side."""
    blocks = -(-size // (_MOST_VECTORS * lanes))
    return -(-size // (blocks * lanes)) * lanes


class StepWriter:
    """Writes the step of a cell, for some rows of the batch at once.

    Args:
        b: the builder of the program.
        x, r: operands of the operator.
        given: the states before the first step.

    Attributes:
        states: of the cell, a vector per row; the first is what the cell gives.
        spare: as large as a state, for what a step needs.
    """

    rows, memory = _MOST_ROWS, None  # of the states; the memory that they are in
    steps_differ = True  # whether rows may have fewer steps than there are

    def __init__(
        self, b: Builder, x: Buffer, r: Buffer, given: Sequence[Buffer]
    ) -> None:
        self.b, self.x, self.r, self.given = b, x, r, given
        gates, _, self.size, self.width = (_known(dim) for dim in r.shape[1:])
        self.lanes = lanes_for(x.dtype)
        shape = (self.rows, self.size)
        self.states = [b.alloc(shape, x.dtype, self.memory) for _ in given]
        self.spare = b.alloc(shape, x.dtype, self.memory)
        self._sums = b.alloc((self.rows, gates * self.size), x.dtype, self.memory)
        self._run = Run(0, 0, 1, 1)

    @property
    def weights_bytes(self) -> int:
        """The size of the weights of one direction."""
        return prod(map(_known, self.r.shape[1:])) * self.r.dtype.size_bytes

    def start(self, run: Run) -> None:
        """Take the states before the first step."""
        self._run = run

        def copy(lanes: Lanes) -> None:
            for given, state in zip(self.given, self.states, strict=True):
                where = (run.direction, lanes.row + run.first, lanes.first)
                lanes.store(state, lanes.read(given, where))

        self.each(copy)

    def go_on(self, run: Run) -> None:
        """Go on to another step."""
        self._run = run

    def multiply(
        self, source: Buffer, gates: range, start: Start | None = None
    ) -> None:
        """Let the sums of some gates be x, or a start, and a vector times r.

        Args:
            source: the vector of each row.
            gates: their numbers.
            start: gets columns; x if it is left out.
        """
        start = start or self.input
        at_once = max(1, min(_MOST_VECTORS, _MOST_SUMS // self._run.rows))
        if self.size <= self.width < at_once * self.lanes:
            parts = [p for gate in gates for p in self._parts(gate, 0, 0, self.size)]
            for first in range(0, len(parts), at_once):
                self._sum_few(source, parts[first : first + at_once], start)
            return
        full, rest = divmod(self.size, self.width)

        def every_gate(number: Index) -> list[Scalar]:
            gate = self._there_and_back(number, len(gates)) + gates.start

            def block(n: Index | int, width: int = self.width) -> list[Scalar]:
                self._sum(source, gate, n, width, at_once * self.lanes, start)
                return []

            def whole(n: Index) -> list[Scalar]:
                return block(self._there_and_back(n, full))

            if full:
                self.b.loop(full, [], whole)
            if rest:
                block(full, rest)
            return []

        self.b.loop(len(gates), [], every_gate)

    def _there_and_back(self, number: Index, count: int) -> Index:
        """``number`` below ``count``, counted backwards in every second step.

        What a step read last of the weights is still near when the next one begins.
        """
        step = self._run.step
        if isinstance(step, int):
            return number
        back = step % 2
        return number + back * (count - 1 - number * 2)

    def _parts(
        self, gate: Index | int, block: Index | int, begin: Index | int, width: int
    ) -> list[_Part]:
        """The vectors of some columns in a block."""
        return [
            _Part(gate, block, begin + n, min(self.lanes, width - n))
            for n in range(0, width, self.lanes)
        ]

    def _sum(
        self,
        source: Buffer,
        gate: Index,
        block: Index | int,
        width: int,
        at_once: int,
        start: Start,
    ) -> None:
        """The sums of the first columns of a block, ``at_once`` of them in registers."""
        full, rest = divmod(width, at_once)

        def columns(n: Index | int, width: int = at_once) -> list[Scalar]:
            parts = self._parts(gate, block, n * at_once, width)
            self._sum_few(source, parts, start)
            return []

        if full:
            self.b.loop(full, [], columns)
        if rest:
            columns(full, rest)

    def _sum_few(self, source: Buffer, parts: Sequence[_Part], start: Start) -> None:
        rows, direction = range(self._run.rows), self._run.direction

        def step(k: Index, *sums: Scalar) -> list[Scalar]:
            weights = [
                load_lanes(self.r, (direction, p.gate, p.block, k, p.offset))
                for p in parts
            ]
            factors = [splat(source[row, k]) for row in rows]
            pairs = [(f, w) for f in factors for w in weights]
            return [fma(f, w, s) for (f, w), s in zip(pairs, sums, strict=True)]

        places = [Lanes(row, self._column(p), p.count) for row in rows for p in parts]
        sums = self.b.loop(self.size, [start(place) for place in places], step)
        for total, place in zip(sums, places, strict=True):
            place.store(self._sums, total)

    def _column(self, part: _Part) -> Index | int:
        """The number of a vector's first column."""
        return part.gate * self.size + part.block * self.width + part.offset

    def input(self, columns: Lanes) -> Scalar:
        """What x has in some columns."""
        run = self._run
        row = run.row(columns.row)
        where = (run.place(columns.row), row, run.direction, columns.first)
        return columns.read(self.x, where)

    def parameter(self, buffer: Buffer, lanes: Lanes, offset: int = 0) -> Scalar:
        """What a vector for each direction has for some units."""
        where = (self._run.direction, lanes.first + offset)
        return lanes.read(buffer, where)

    def gate(self, number: int, units: Lanes) -> Scalar:
        """The sums of one gate."""
        return self.of_gate(number, units).load(self._sums)

    def of_gate(self, number: int, units: Lanes) -> Lanes:
        """The columns of units in one gate."""
        return replace(units, first=units.first + number * self.size)

    def each(self, body: Callable[[Lanes], None], *, idle: bool = False) -> None:
        """Write what is done with all units of all rows that have the step.

        Args:
            body: gets units of a row.
            idle: for those rows instead that do not have it.
        """
        full, rest = divmod(self.size, self.lanes)
        run = self._run

        def row(n: Index) -> list[Scalar]:
            def vector(i: Index) -> list[Scalar]:
                body(Lanes(n, i * self.lanes, self.lanes))
                return []

            if full:
                self.b.loop(full, [], vector)
            if rest:
                body(Lanes(n, full * self.lanes, rest))
            return []

        def row_with_step(n: Index) -> list[Scalar]:
            times = 1 if run.is_active is None else run.is_active(n)
            self.b.loop(1 - times if idle else times, [], lambda _: row(n))
            return []

        is_whole = run.is_active is None
        self.b.loop(run.count, [], row if is_whole else row_with_step)

    def give(self, y: Buffer) -> None:
        """Write what a step gives; where a row does not have it, zeros."""
        run, state = self._run, self.states[0]
        self.each(lambda u: self._give(y, u, run.place(u.row), u.load(state)))
        if run.is_active is not None:
            self.give_zeros(y, run.step, idle=True)

    def give_zeros(self, y: Buffer, step: Index | int, *, idle: bool = False) -> None:
        """Write zeros for a step."""

        def write(units: Lanes) -> None:
            self._give(y, units, step, units.number(self.b.constant(0, y.dtype)))

        self.each(write, idle=idle)

    def _give(self, y: Buffer, units: Lanes, place: Index | int, value: Scalar) -> None:
        run = self._run
        where = (place, run.direction, units.row + run.first, units.first)
        units.write(y, where, value)

    def finish(self, state: Buffer, last: Buffer) -> None:
        """Write the last state."""
        run = self._run

        def write(units: Lanes) -> None:
            where = (run.direction, units.row + run.first, units.first)
            units.write(last, where, units.load(state))

        self.each(write)


def write_steps(
    b: Builder,
    writer: StepWriter,
    lengths: Buffer,
    direction: str,
    write_step: Callable[[StepWriter], None],
) -> list[Buffer]:
    """Write the program of a recurrent operator, and return its results.

    Args:
        b: the builder.
        writer: of its operands.
        lengths: of the rows, if they have lengths of their own.
        direction: an attribute of the operator.
        write_step: writes what becomes of the states in a step.
    """
    wanted = zip(b.results, b.wanted, strict=True)
    results = [b.alloc(*result) if is_wanted else None for result, is_wanted in wanted]
    loops = _TimeLoops(b, writer, lengths, direction, write_step, results)
    batch, directions = writer.x.shape[1], 2 if direction == "bidirectional" else 1

    def sequence(number: Index) -> None:
        loops.write(Run(number % directions, number // directions, 1, 1))

    if b.has_threads:
        b.blocks(b.dim(batch * directions), sequence)
        return [result or writer.x for result in results]
    rows = _rows(batch, writer.weights_bytes)

    def tile(number: Index) -> None:
        own, first = number % directions, number // directions * rows
        if isinstance(batch, int) and batch % rows == 0:
            loops.write(Run(own, first, rows, rows))
            return
        left = Index(Index.value_of(b.dim(batch))) - first

        def many(_: Index) -> list[Scalar]:
            loops.write(Run(own, first, rows, left.minimum(rows)))
            return []

        def alone(n: Index) -> list[Scalar]:
            loops.write(Run(own, first + n, 1, 1))
            return []

        is_many = (left // (_ALONE + 1)).minimum(1)
        b.loop(is_many, [], many)
        b.loop((1 - is_many) * left, [], alone)

    b.tiles(b.dim(shapes.ceildiv(batch, rows) * directions), tile)
    return [result or writer.x for result in results]


def _rows(batch: Dim, weights_bytes: int) -> int:
    """How many rows of the batch go together."""
    if not isinstance(batch, int):
        return _SOME_ROWS
    is_near = weights_bytes <= _CACHE_BYTES
    most, reading = (_SOME_ROWS, 3) if is_near else (_MOST_ROWS, 8)

    def cost(rows: int) -> float:
        return -(-batch // rows) * (reading + rows)  # to read weights, and to multiply

    return min(range(1, most + 1), key=cost)


def _known(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise ValueError(f"gates and hidden sizes must be numbers, got `{dim}`")
    return dim


@dataclass(frozen=True)
class _TimeLoops:
    """The loop over time; see :func:`write_steps`.

    Attributes:
        results: y and the last states; None for those that nobody wants.
    """

    b: Builder
    writer: StepWriter
    lengths: Buffer
    direction: str
    write_step: Callable[[StepWriter], None]
    results: Sequence[Buffer | None]

    def write(self, run: Run) -> None:
        """Take some rows of the batch through all steps."""
        b, writer, (y, *last) = self.b, self.writer, self.results
        time = b.dim(writer.x.shape[0])
        steps = self._most_steps(run, time)
        writer.start(run)

        def step(number: Index) -> list[Scalar]:
            writer.go_on(self._at(run, number, time))
            self.write_step(writer)
            if y is not None:
                writer.give(y)
            return []

        def nothing(number: Index) -> list[Scalar]:
            if y is not None:
                writer.give_zeros(y, number + steps)
            return []

        b.loop(steps, [], step)
        writer.go_on(run)
        if y is not None and self._has_lengths and writer.steps_differ:
            b.loop(time - steps, [], nothing)
        for state, buffer in zip(writer.states, last, strict=True):
            if buffer is not None:
                writer.finish(state, buffer)

    @property
    def _has_lengths(self) -> bool:
        return self.lengths.shape != (0,)

    def _most_steps(self, run: Run, time: Index | int) -> Index | int:
        """How many steps the longest sequence has."""
        if not self._has_lengths or not self.writer.steps_differ:
            return time
        own = [self._length(run.row(row), time) for row in range(run.rows)]
        return reduce(Index.maximum, own)

    def _length(self, row: Index | int, time: Index | int) -> Index:
        return Index.from_scalar(self.lengths[row]).maximum(0).minimum(time)

    def _at(self, run: Run, step: Index, time: Index | int) -> Run:
        """The run at a step."""

        def steps(row: Index | int) -> Index | int:
            return self._length(run.row(row), time) if self._has_lengths else time

        def place(row: Index | int) -> Index:
            if self.direction == "forward":
                return step
            back = Index(Index.value_of(steps(row) - 1 - step))
            if self._has_lengths:
                back = back.maximum(0)  # of a row that is not active
            if self.direction == "reverse":
                return back
            return step + (back - step) * run.direction

        def is_active(row: Index | int) -> Index:
            return Index(Index.value_of(steps(row) - step)).maximum(0).minimum(1)

        active = is_active if self._has_lengths else None
        return replace(run, step=step, place=place, is_active=active)
