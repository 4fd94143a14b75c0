"""Time steps of recurrent networks on a GPU: one thread block per sequence.

The hidden states and the gate pre-activations are in shared memory. The threads of a block
distribute the columns of the recurrent matmul, then the units of the cell, with a barrier
between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relax_mlir.dialects.relax.rnn_program import StartValue, StepWriter, UnitLanes
from relax_mlir.dialects.tir import Buffer, Index, Scalar

__all__ = ["ThreadStepWriter"]

_MOST_THREADS = 1024  # per block
_FEWEST_THREADS = 128  # below this, prefer more threads to an even distribution


class _Unit(UnitLanes):
    """A single unit or gate column, computed by one thread."""

    def read(self, buffer: Buffer, where: Sequence[Index | int]) -> Scalar:
        return buffer[tuple(where)]

    def write(
        self, buffer: Buffer, where: Sequence[Index | int], value: Scalar
    ) -> None:
        buffer.store(value, where)

    def number(self, value: Scalar) -> Scalar:
        return value


class ThreadStepWriter(StepWriter):
    """Emits the step of a cell for one batch element, distributed over the threads."""

    rows, memory = 1, "shared"
    steps_differ = False  # all threads must reach the same barriers

    def multiply(
        self, source: Buffer, gates: range, start: StartValue | None = None
    ) -> None:
        begin = start or self.input
        direction = self._run.direction

        def column(number: Index) -> None:
            gate = number // self.size + gates.start
            unit = number % self.size
            block, offset = unit // self.width, unit % self.width
            lanes = _Unit(0, gate * self.size + unit, 1)

            def step(k: Index, total: Scalar) -> list[Scalar]:
                weight = self.r[direction, gate, block, k, offset]
                return [total + source[0, k] * weight]

            (total,) = self.b.loop(self.size, [begin(lanes)], step)
            lanes.store(self._sums, total)

        self._share(len(gates) * self.size, column)

    def for_each_unit(
        self, body: Callable[[UnitLanes], None], *, idle: bool = False
    ) -> None:
        is_active = self._run.is_active

        def unit(number: Index) -> None:
            lanes = _Unit(0, number, 1)
            if is_active is None:
                body(lanes)
                return
            active = is_active(0)
            self.b.if_nonzero(1 - active if idle else active, lambda: body(lanes))

        self._share(self.size, unit)

    def _share(self, count: int, body: Callable[[Index], None]) -> None:
        """Distributes ``count`` iterations over the threads; adjacent threads, adjacent ones."""
        fitting = range(min(count, _MOST_THREADS), 0, -1)
        threads = next(n for n in fitting if count % n == 0)
        if threads < min(count, _FEWEST_THREADS):
            threads = _MOST_THREADS

        def thread(number: Index) -> None:
            def step(n: Index) -> list[Scalar]:
                iteration = n * threads + number
                if count % threads == 0:
                    body(iteration)
                    return []

                left = Index(Index.value_of(count - iteration)).maximum(0)
                self.b.if_nonzero(left, lambda: body(iteration))
                return []

            steps = -(-count // threads)
            if steps == 1:
                step(Index(Index.value_of(0)))
            else:
                self.b.loop(steps, [], step)

        self.b.bound_loop("threadIdx.x", threads, thread)
