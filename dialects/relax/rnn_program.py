"""Tensor programs of recurrent networks: all time steps in one kernel.

Tiles of a few batch rows and one direction are independent and run in parallel. In a tile
the time steps are sequential: a GEMM of the state with the recurrent weights, accumulated
in registers along the columns of the gates, then the activation functions along the units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar
from relax_mlir.dialects.tir.vectors import (
    fma,
    load_lanes,
    splat,
    store_lanes,
    vector_lanes,
)

__all__ = ["StepWriter", "UnitLanes", "panel_width", "write_steps"]

_MOST_ROWS = 16  # batch rows of a tile, which share loads of the weights
_SOME_ROWS = 8  # the same for weights that fit a core's cache, and for symbolic batches
_CACHE_BYTES = 1 << 20  # cache per core
_MOST_SUMS = 16  # accumulator vectors in registers
_MOST_VECTORS = 8  # vectors of a panel of columns
_ALONE = 2  # remaining rows up to which row by row is faster than a tile


@dataclass(frozen=True)
class UnitLanes:
    """A vector of adjacent units or gate columns of one batch row.

    Attributes:
        row: the row within the tile.
        first: the first unit.
        count: number of units.
    """

    row: Index | int
    first: Index | int
    count: int

    def load(self, buffer: Buffer) -> Scalar:
        """Loads the elements of these units from a buffer [row, unit]."""
        return self.read(buffer, (self.row, self.first))

    def store(self, buffer: Buffer, value: Scalar) -> None:
        """Stores the elements of these units to a buffer [row, unit]."""
        self.write(buffer, (self.row, self.first), value)

    def read(self, buffer: Buffer, where: Sequence[Index | int]) -> Scalar:
        """Loads ``count`` elements starting at ``where``."""
        return load_lanes(buffer, where, self.count)

    def write(
        self, buffer: Buffer, where: Sequence[Index | int], value: Scalar
    ) -> None:
        """Stores ``count`` elements starting at ``where``."""
        store_lanes(buffer, value, where, self.count)

    def number(self, value: Scalar) -> Scalar:
        """Broadcasts a scalar to all units."""
        return splat(value)


StartValue = Callable[[UnitLanes], Scalar]


@dataclass(frozen=True)
class BatchTile:
    """A tile: a few batch rows in one direction, at one time step.

    Attributes:
        direction: index of the direction.
        first: the first batch row.
        rows: number of rows that are computed.
        count: number of rows that exist, at most ``rows``.
        step: number of the current step.
        time_index: time index of the step for each row.
        is_active: whether a row's sequence has the step, as 0 or 1; None if all have.
    """

    direction: Index | int
    first: Index | int
    rows: int
    count: Index | int
    step: Index | int = 0
    time_index: Callable[[Index | int], Index | int] = lambda row: 0
    is_active: Callable[[Index | int], Index] | None = None

    def row(self, number: Index | int) -> Index | int:
        """The batch index of a row of the tile, clamped to the last row that exists."""
        if self.rows == self.count:
            return number + self.first
        last = Index(Index.value_of(self.count - 1))
        return last.minimum(number) + self.first


@dataclass(frozen=True)
class _ColumnVector:
    """A vector of columns of the weights: gate, panel and offset within the panel."""

    gate: Index | int
    block: Index | int
    offset: Index | int
    count: int


def panel_width(size: int, lanes: int) -> int:
    """The width of the panels in which the weights of a gate are packed, in columns."""
    blocks = -(-size // (_MOST_VECTORS * lanes))
    return -(-size // (blocks * lanes)) * lanes


class StepWriter:
    """Emits the time steps of a cell for a tile of batch rows.

    Args:
        b: the builder of the program.
        x, r: operands of the operator.
        initial: the initial states.

    Attributes:
        states: the states of the cell, [row, unit] each; the first is the output.
        spare: a scratch buffer of the size of a state.
    """

    rows, memory = _MOST_ROWS, None  # rows and memory space of the states
    steps_differ = True  # whether rows may end before the last step

    def __init__(
        self, b: Builder, x: Buffer, r: Buffer, initial: Sequence[Buffer]
    ) -> None:
        self.b, self.x, self.r, self.initial = b, x, r, initial
        gates, _, self.size, self.width = (_known(dim) for dim in r.shape[1:])
        self.lanes = vector_lanes(x.dtype)
        shape = (self.rows, self.size)
        self.states = [b.alloc(shape, x.dtype, self.memory) for _ in initial]
        self.spare = b.alloc(shape, x.dtype, self.memory)
        self._sums = b.alloc((self.rows, gates * self.size), x.dtype, self.memory)
        self._run = BatchTile(0, 0, 1, 1)

    @property
    def weights_bytes(self) -> int:
        """Size of the weights of one direction, in bytes."""
        return prod(map(_known, self.r.shape[1:])) * self.r.dtype.size_bytes

    def start(self, run: BatchTile) -> None:
        """Begins a tile: loads the initial states."""
        self._run = run

        def copy(lanes: UnitLanes) -> None:
            for source, state in zip(self.initial, self.states, strict=True):
                where = (run.direction, lanes.row + run.first, lanes.first)
                lanes.store(state, lanes.read(source, where))

        self.for_each_unit(copy)

    def advance(self, run: BatchTile) -> None:
        """Advances to another step of the tile."""
        self._run = run

    def multiply(
        self, source: Buffer, gates: range, start: StartValue | None = None
    ) -> None:
        """Computes the pre-activations of gates: x (or ``start``) + source @ r.

        Args:
            source: the left operand, [row, unit].
            gates: numbers of the gates.
            start: initial value of the accumulator for given columns; None for x.
        """
        start = start or self.input
        at_once = max(1, min(_MOST_VECTORS, _MOST_SUMS // self._run.rows))
        if self.size <= self.width < at_once * self.lanes:
            vectors = [
                v for gate in gates for v in self._vectors(gate, 0, 0, self.size)
            ]
            for first in range(0, len(vectors), at_once):
                self._accumulate(source, vectors[first : first + at_once], start)
            return
        full, rest = divmod(self.size, self.width)

        def every_gate(number: Index) -> list[Scalar]:
            gate = self._alternating(number, len(gates)) + gates.start

            def panel(n: Index | int, width: int = self.width) -> list[Scalar]:
                self._accumulate_panel(
                    source, gate, n, width, at_once * self.lanes, start
                )
                return []

            def full_panel(n: Index) -> list[Scalar]:
                return panel(self._alternating(n, full))

            if full:
                self.b.loop(full, [], full_panel)
            if rest:
                panel(full, rest)
            return []

        self.b.loop(len(gates), [], every_gate)

    def _alternating(self, number: Index, count: int) -> Index:
        """``number``, or ``count - 1 - number`` in every second time step.

        Alternating the order reuses the weights that the previous step left in the cache.
        """
        step = self._run.step
        if isinstance(step, int):
            return number
        is_odd = step % 2
        return number + is_odd * (count - 1 - number * 2)

    def _vectors(
        self, gate: Index | int, block: Index | int, begin: Index | int, width: int
    ) -> list[_ColumnVector]:
        """Divides columns of a panel into vectors."""
        return [
            _ColumnVector(gate, block, begin + n, min(self.lanes, width - n))
            for n in range(0, width, self.lanes)
        ]

    def _accumulate_panel(
        self,
        source: Buffer,
        gate: Index,
        block: Index | int,
        width: int,
        at_once: int,
        start: StartValue,
    ) -> None:
        """Computes the first ``width`` columns of a panel, ``at_once`` in registers."""
        full, rest = divmod(width, at_once)

        def columns(n: Index | int, width: int = at_once) -> list[Scalar]:
            vectors = self._vectors(gate, block, n * at_once, width)
            self._accumulate(source, vectors, start)
            return []

        if full:
            self.b.loop(full, [], columns)
        if rest:
            columns(full, rest)

    def _accumulate(
        self, source: Buffer, vectors: Sequence[_ColumnVector], start: StartValue
    ) -> None:
        """The micro-kernel: rank-1 updates of accumulators in registers."""
        rows, direction = range(self._run.rows), self._run.direction

        def step(k: Index, *sums: Scalar) -> list[Scalar]:
            weights = [
                load_lanes(self.r, (direction, v.gate, v.block, k, v.offset))
                for v in vectors
            ]
            lhs = [splat(source[row, k]) for row in rows]
            pairs = [(u, w) for u in lhs for w in weights]
            return [fma(u, w, s) for (u, w), s in zip(pairs, sums, strict=True)]

        tile = [
            UnitLanes(row, self._column(v), v.count) for row in rows for v in vectors
        ]
        sums = self.b.loop(self.size, [start(lanes) for lanes in tile], step)
        for total, lanes in zip(sums, tile, strict=True):
            lanes.store(self._sums, total)

    def _column(self, vector: _ColumnVector) -> Index | int:
        """The number of a vector's first column."""
        return vector.gate * self.size + vector.block * self.width + vector.offset

    def input(self, columns: UnitLanes) -> Scalar:
        """Loads x for the given columns at the current step."""
        run = self._run
        row = run.row(columns.row)
        where = (run.time_index(columns.row), row, run.direction, columns.first)
        return columns.read(self.x, where)

    def parameter(self, buffer: Buffer, lanes: UnitLanes, offset: int = 0) -> Scalar:
        """Loads a parameter [direction, unit] for the given units."""
        where = (self._run.direction, lanes.first + offset)
        return lanes.read(buffer, where)

    def gate(self, number: int, units: UnitLanes) -> Scalar:
        """The pre-activation of a gate."""
        return self.gate_columns(number, units).load(self._sums)

    def gate_columns(self, number: int, units: UnitLanes) -> UnitLanes:
        """The columns of a gate that belong to the given units."""
        return replace(units, first=units.first + number * self.size)

    def for_each_unit(
        self, body: Callable[[UnitLanes], None], *, idle: bool = False
    ) -> None:
        """A loop over all units of all active rows.

        Args:
            body: called with vectors of units of a row.
            idle: whether to loop over the inactive rows instead.
        """
        full, rest = divmod(self.size, self.lanes)
        run = self._run

        def row(n: Index) -> list[Scalar]:
            def vector(i: Index) -> list[Scalar]:
                body(UnitLanes(n, i * self.lanes, self.lanes))
                return []

            if full:
                self.b.loop(full, [], vector)
            if rest:
                body(UnitLanes(n, full * self.lanes, rest))
            return []

        def row_with_step(n: Index) -> list[Scalar]:
            times = 1 if run.is_active is None else run.is_active(n)
            self.b.loop(1 - times if idle else times, [], lambda _: row(n))
            return []

        is_whole = run.is_active is None
        self.b.loop(run.count, [], row if is_whole else row_with_step)

    def store_output(self, y: Buffer) -> None:
        """Stores the output of a step; zeros for inactive rows."""
        run, state = self._run, self.states[0]
        self.for_each_unit(
            lambda u: self._store_output_at(y, u, run.time_index(u.row), u.load(state))
        )
        if run.is_active is not None:
            self.store_zeros(y, run.step, idle=True)

    def store_zeros(self, y: Buffer, step: Index | int, *, idle: bool = False) -> None:
        """Stores zeros as the output of a step."""

        def write(units: UnitLanes) -> None:
            self._store_output_at(
                y, units, step, units.number(self.b.constant(0, y.dtype))
            )

        self.for_each_unit(write, idle=idle)

    def _store_output_at(
        self, y: Buffer, units: UnitLanes, time: Index | int, value: Scalar
    ) -> None:
        run = self._run
        where = (time, run.direction, units.row + run.first, units.first)
        units.write(y, where, value)

    def store_final_state(self, state: Buffer, last: Buffer) -> None:
        """Stores the final state."""
        run = self._run

        def write(units: UnitLanes) -> None:
            where = (run.direction, units.row + run.first, units.first)
            units.write(last, where, units.load(state))

        self.for_each_unit(write)


def write_steps(
    b: Builder,
    writer: StepWriter,
    lengths: Buffer,
    direction: str,
    write_step: Callable[[StepWriter], None],
) -> list[Buffer]:
    """Emits the program of a recurrent operator and returns its results.

    Args:
        b: the builder.
        writer: the step writer of the operator's operands.
        lengths: the length of every sequence, or an empty buffer for full length.
        direction: attribute of the operator.
        write_step: emits the update of the states in a step.
    """
    wanted = zip(b.results, b.wanted, strict=True)
    results = [b.alloc(*result) if is_wanted else None for result, is_wanted in wanted]
    loops = _TimeLoops(b, writer, lengths, direction, write_step, results)
    batch, directions = writer.x.shape[1], 2 if direction == "bidirectional" else 1

    def sequence(number: Index) -> None:
        loops.write(BatchTile(number % directions, number // directions, 1, 1))

    if b.has_threads:
        b.block_loop(b.dim(batch * directions), sequence)
        return [result or writer.x for result in results]
    rows = _rows(batch, writer.weights_bytes)

    def tile(number: Index) -> None:
        own, first = number % directions, number // directions * rows
        if isinstance(batch, int) and batch % rows == 0:
            loops.write(BatchTile(own, first, rows, rows))
            return
        left = Index(Index.value_of(b.dim(batch))) - first

        def together(_: Index) -> list[Scalar]:
            loops.write(BatchTile(own, first, rows, left.minimum(rows)))
            return []

        def one_row(n: Index) -> list[Scalar]:
            loops.write(BatchTile(own, first + n, 1, 1))
            return []

        are_many = (left // (_ALONE + 1)).minimum(1)
        b.loop(are_many, [], together)
        b.loop((1 - are_many) * left, [], one_row)

    b.parallel_loop(b.dim(shapes.ceildiv(batch, rows) * directions), tile)
    return [result or writer.x for result in results]


def _rows(batch: Dim, weights_bytes: int) -> int:
    """The number of batch rows of a tile, by a cost model."""
    if not isinstance(batch, int):
        return _SOME_ROWS
    is_cached = weights_bytes <= _CACHE_BYTES
    most, load_cost = (_SOME_ROWS, 3) if is_cached else (_MOST_ROWS, 8)

    def cost(rows: int) -> float:
        return -(-batch // rows) * (load_cost + rows)  # load weights, multiply

    return min(range(1, most + 1), key=cost)


def _known(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise ValueError(f"gates and hidden sizes must be numbers, got `{dim}`")
    return dim


@dataclass(frozen=True)
class _TimeLoops:
    """The loop over time steps; see :func:`write_steps`.

    Attributes:
        results: y and the final states; None for unused ones.
    """

    b: Builder
    writer: StepWriter
    lengths: Buffer
    direction: str
    write_step: Callable[[StepWriter], None]
    results: Sequence[Buffer | None]

    def write(self, run: BatchTile) -> None:
        """Emits all time steps of a tile."""
        b, writer, (y, *last) = self.b, self.writer, self.results
        time = b.dim(writer.x.shape[0])
        steps = self._longest_length(run, time)
        writer.start(run)

        def step(number: Index) -> list[Scalar]:
            writer.advance(self._at_step(run, number, time))
            self.write_step(writer)
            if y is not None:
                writer.store_output(y)
            return []

        def zeros(number: Index) -> list[Scalar]:
            if y is not None:
                writer.store_zeros(y, number + steps)
            return []

        b.loop(steps, [], step)
        writer.advance(run)
        if y is not None and self._has_lengths and writer.steps_differ:
            b.loop(time - steps, [], zeros)
        for state, buffer in zip(writer.states, last, strict=True):
            if buffer is not None:
                writer.store_final_state(state, buffer)

    @property
    def _has_lengths(self) -> bool:
        return self.lengths.shape != (0,)

    def _longest_length(self, run: BatchTile, time: Index | int) -> Index | int:
        """The length of the longest sequence of the tile."""
        if not self._has_lengths or not self.writer.steps_differ:
            return time
        own = [self._length(run.row(row), time) for row in range(run.rows)]
        return reduce(Index.maximum, own)

    def _length(self, row: Index | int, time: Index | int) -> Index:
        return Index.from_scalar(self.lengths[row]).maximum(0).minimum(time)

    def _at_step(self, run: BatchTile, step: Index, time: Index | int) -> BatchTile:
        """The tile at a time step."""

        def steps(row: Index | int) -> Index | int:
            return self._length(run.row(row), time) if self._has_lengths else time

        def time_index(row: Index | int) -> Index:
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
        return replace(run, step=step, time_index=time_index, is_active=active)
