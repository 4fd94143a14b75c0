"""Primitives that choose at random; a trace remembers what they chose."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, tree
from relax_mlir.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV
from relax_mlir.tir.schedule.state import loop_bounds

__all__ = ["Sampling"]


class Sampling(ScheduleBase):
    """What schedules choose at random."""

    @primitive
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Sequence[float],
        decision: int | None = None,
    ) -> ExprRV:
        """One of some numbers, by probabilities.

        Args:
            candidates: the numbers.
            probs: their probabilities.
            decision: which to take, by its place in the list.
        """
        numbers = [int(c) for c in candidates]
        weights = [float(p) for p in probs]
        if decision is None:
            listed = range(len(numbers))
            decision = self._random.choices(listed, weights)[0]
        chosen = int(decision)
        if not 0 <= chosen < len(numbers):
            raise ScheduleError(
                f"sample_categorical: expected a decision from 0 to {len(numbers) - 1}, "
                f"got {chosen}"
            )
        made = self.new_number(numbers[chosen])
        attrs = [list(candidates), list(probs)]
        self.record("SampleCategorical", [], attrs, [made], chosen)
        return made

    @primitive
    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Factors whose product is the extent of a loop.

        Args:
            loop: the loop; if its extent is no number, all factors but the first are 1.
            n: how many.
            max_innermost_factor: the greatest that the last may be; -1 for any.
            decision: the factors, if they are known.
        """
        _, extent = loop_bounds(Indices(), self.loop_op(loop))
        if decision is not None:
            factors = [int(f) for f in decision]
        elif isinstance(extent, int):
            factors = self._perfect_tile(extent, n, max_innermost_factor)
        else:
            factors = [1] * n
        made = [self.new_number(f) for f in factors]
        attrs = [n, max_innermost_factor]
        self.record("SamplePerfectTile", [loop], attrs, made, factors)
        return made

    def _perfect_tile(self, extent: int, count: int, limit: int) -> list[int]:
        top = extent if limit < 0 else limit
        last = self._random.choice(
            [d for d in _divisors(extent) if d <= top or count == 1]
        )
        if count == 1:
            return [extent]
        rest, found = extent // last, [last]
        for _ in range(count - 2):
            factor = self._random.choice(_divisors(rest))
            found.append(factor)
            rest //= factor
        return [*reversed([*found, rest])]

    @primitive
    def sample_compute_location(
        self, block: BlockRV | str, decision: int | None = None
    ) -> LoopRV:
        """A loop around the consumers of a block, to compute it at.

        Args:
            block: which.
            decision: the number of the loop.
        """
        block = self.block_of(block)
        consumers = accesses.consumers_of(self.block_op(block))
        if not consumers:
            raise ScheduleError("sample_compute_location: the block has no consumer")
        around = tree.enclosing_loops(consumers[0])
        if not around:
            raise ScheduleError("sample_compute_location: its consumer is in no loop")
        chosen = self._random.randrange(len(around)) if decision is None else decision
        made = self.new_loop(around[int(chosen)])
        self.record("SampleComputeLocation", [block], [], [made], int(chosen))
        return made


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
