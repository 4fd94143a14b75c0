"""Primitives that choose at random; a trace remembers what they chose."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, inline, tree
from relax_mlir.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tir.schedule.decompose import symbols_in
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV
from relax_mlir.tir.schedule.state import loop_bounds, loop_var

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
        if not numbers or len(numbers) != len(weights) or min(weights) < 0:
            raise ScheduleError(
                f"sample_categorical: expected a probability of 0 or more for each of "
                f"{len(numbers)} candidates, got {weights}"
            )
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
            loop: the loop; if its extent is no number, the first factor is None and the
                others are 1.
            n: how many.
            max_innermost_factor: the greatest that the last may be; -1 for any.
            decision: the factors, if they are known. One that does not divide what the
                inner ones leave becomes that, and the outer ones 1.
        """
        _, extent = loop_bounds(Indices(), self.loop_op(loop))
        given = n if decision is None else len(decision)
        if n < 1 or given != n:
            raise ScheduleError(
                f"sample_perfect_tile: expected at least one factor and as many as there "
                f"are decisions, got {n} and {given}"
            )
        if decision is not None and isinstance(extent, int):
            factors = _fitting_factors(extent, decision)
        elif decision is not None:
            factors = [int(f) for f in decision]
        elif isinstance(extent, int):
            factors = self._perfect_tile(extent, n, max_innermost_factor)
        else:
            factors = [-1, *[1] * (n - 1)]
        made = self._factors(factors)
        attrs = [n, max_innermost_factor]
        self.record("SamplePerfectTile", [loop], attrs, made, factors)
        return made

    def _factors(self, factors: Sequence[int]) -> list[ExprRV]:
        """Variables for factors; None for the -1 that stands for what the others leave."""
        return [None if f == -1 else self.new_number(f) for f in factors]

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
    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Factors whose product is the extent of a loop, the inner ones a known multiple.

        Args:
            loop: the loop; if its extent is no number, the first factor is None and the
                others are 1.
            n: how many.
            partition_pos: the number of the first inner factor.
            innerpart_factor: what divides the product of the inner factors.
            decision: the factors, if they are known.
        """
        position, inner = self.number(partition_pos), self.number(innerpart_factor)
        if not 0 <= position <= n or inner <= 0:
            raise ScheduleError(
                "sample_partitioned_tile: expected a position from 0 to "
                f"{n} and a factor above 0, got {position} and {inner}"
            )
        _, extent = loop_bounds(Indices(), self.loop_op(loop))
        if decision is not None:
            factors = [int(f) for f in decision]
        elif not isinstance(extent, int):
            factors = [-1, *[1] * (n - 1)]
        elif extent % inner or (position == n and inner != 1):
            factors = [extent, *[1] * (n - 1)]
        else:
            factors = self._partitioned_tile(extent, n, position, inner)
        made = self._factors(factors)
        attrs = [n, position, inner]
        self.record("SamplePartitionedTile", [loop], attrs, made, factors)
        return made

    def _partitioned_tile(
        self, extent: int, count: int, position: int, inner: int
    ) -> list[int]:
        """Outer factors of any part of what ``inner`` leaves, and the inner ones."""
        if position in (0, count):
            return self._perfect_tile(extent, count, -1)
        outer = self._random.choice(_divisors(extent // inner))
        return [
            *self._perfect_tile(outer, position, -1),
            *self._perfect_tile(extent // outer, count - position, -1),
        ]

    @primitive
    def sample_compute_location(
        self, block: BlockRV | str, decision: int | None = None
    ) -> LoopRV:
        """Where to compute a block: in a loop of its consumers, in them, or where it is.

        Args:
            block: which.
            decision: the number of the loop among those around the first consumer; -1 for
                where it is, -2 for inlining.

        Returns:
            What :meth:`compute_at` and :meth:`reverse_compute_at` take as a loop.
        """
        block = self.block_of(block)
        op = self.block_op(block)
        consumers = accesses.consumers_of(op)
        around = tree.enclosing_loops(consumers[0]) if consumers else []
        if decision is None:
            decision = self._random.choice(_locations(op, consumers, around))
        chosen = int(decision)
        if not -2 <= chosen < len(around):
            raise ScheduleError(
                f"sample_compute_location: {tree.describe(op)}: expected a decision from "
                f"-2 to {len(around) - 1}, got {chosen}"
            )
        made = self.new_loop(around[chosen]) if chosen >= 0 else self.new_mark(chosen)
        self.record("SampleComputeLocation", [block], [], [made], chosen)
        return made


def _locations(
    block: ir.Operation,
    consumers: Sequence[ir.Operation],
    around: Sequence[ir.Operation],
) -> list[int]:
    """Loops of more than one step that hold all consumers, and what needs no loop.

    No loop inside of one that adds up counts, unless it does, too.
    """
    found = [-1]
    with contextlib.suppress(ScheduleError):
        inline.check_inline(block)
        found.insert(0, -2)
    adds_up = False
    for number, loop in enumerate(around):
        if any(loop not in tree.enclosing_loops(c) for c in consumers):
            break
        indices = Indices()
        if loop_bounds(indices, loop)[1] == 1:
            continue
        is_reduce = indices.symbol(loop_var(loop)) in symbols_in(
            consumers[0], indices, "R"
        )
        if adds_up and not is_reduce:
            break
        adds_up = adds_up or is_reduce
        found.append(number)
    return found


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _fitting_factors(extent: int, decision: Sequence[int]) -> list[int]:
    """Factors of an extent after a decision that was made for another one."""
    found: list[int] = []
    rest = extent
    for factor in reversed([int(f) for f in decision[1:]]):
        chosen = rest if factor < 1 or rest % factor else factor
        found.append(chosen)
        rest //= chosen
    return [rest, *reversed(found)]
