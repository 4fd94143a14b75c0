"""Steps of recurrent networks on a GPU: a block of threads has a sequence.

States, and sums of products with them, are in the memory that the block shares. Each thread
has columns of the gates, then units of the cell; they wait for each other between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relax_mlir.dialects.relax.recurrent_program import Lanes, Start, StepWriter
from relax_mlir.dialects.tir import Buffer, Index, Scalar

__all__ = ["ThreadStepWriter"]

_MOST_THREADS = 1024  # of a block
_FEWEST_THREADS = 128  # that are worth an even share


class _Unit(Lanes):
    """A unit, or a column, of a thread."""

    def read(self, buffer: Buffer, where: Sequence[Index | int]) -> Scalar:
        return buffer[tuple(where)]

    def write(
        self, buffer: Buffer, where: Sequence[Index | int], value: Scalar
    ) -> None:
        buffer.store(value, where)

    def number(self, value: Scalar) -> Scalar:
        return value


class ThreadStepWriter(StepWriter):
    """Writes the step of a cell for one row, whose columns threads share."""

    rows, memory = 1, "shared"
    steps_differ = False  # threads wait for each other as often

    def multiply(
        self, source: Buffer, gates: range, start: Start | None = None
    ) -> None:
        begin = start or self.input
        direction = self._run.direction

        def column(number: Index) -> None:
            gate = number // self.size + gates.start
            unit = number % self.size
            block, offset = unit // self.width, unit % self.width
            place = _Unit(0, gate * self.size + unit, 1)

            def step(k: Index, total: Scalar) -> list[Scalar]:
                weight = self.r[direction, gate, block, k, offset]
                return [total + source[0, k] * weight]

            (total,) = self.b.loop(self.size, [begin(place)], step)
            place.store(self._sums, total)

        self._share(len(gates) * self.size, column)

    def each(self, body: Callable[[Lanes], None], *, idle: bool = False) -> None:
        is_active = self._run.is_active

        def unit(number: Index) -> None:
            place = _Unit(0, number, 1)
            if is_active is None:
                body(place)
                return
            active = is_active(0)
            self.b.only_if(1 - active if idle else active, lambda: body(place))

        self._share(self.size, unit)

    def _share(self, count: int, body: Callable[[Index], None]) -> None:
        """Let threads share some steps; neighbours have neighbours."""
        fitting = range(min(count, _MOST_THREADS), 0, -1)
        threads = next(n for n in fitting if count % n == 0)
        if threads < min(count, _FEWEST_THREADS):
            threads = _MOST_THREADS

        def thread(number: Index) -> None:
            def turn(n: Index) -> list[Scalar]:
                place = n * threads + number
                if count % threads == 0:
                    body(place)
                    return []

                left = Index(Index.value_of(count - place)).maximum(0)
                self.b.only_if(left, lambda: body(place))
                return []

            turns = -(-count // threads)
            if turns == 1:
                turn(Index(Index.value_of(0)))
            else:
                self.b.loop(turns, [], turn)

        self.b.bound("threadIdx.x", threads, thread)
