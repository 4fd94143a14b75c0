"""Sampling primitives, whose decisions the trace records."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir.schedule import accesses, inline, tree
from relax_mlir.tvm.tir.schedule.base import ScheduleBase, primitive
from relax_mlir.tvm.tir.schedule.decompose import symbols_of_iters
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, ExprRV, LoopRV
from relax_mlir.tvm.tir.schedule.state import loop_bounds, loop_var

__all__ = ["Sampling"]


class Sampling(ScheduleBase):
    """Primitives that sample random decisions."""

    @primitive
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Sequence[float],
        decision: int | None = None,
    ) -> ExprRV:
        """Sample one of several integers.

        Args:
            candidates: the integers.
            probs: their probabilities.
            decision: the index of the candidate to take.
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
        """Sample factors whose product is the extent of a loop.

        Args:
            loop: the loop; if its extent is not constant, the first factor is None and the others
                are 1.
            n: the number of factors.
            max_innermost_factor: the maximum of the last factor; -1 for none.
            decision: the factors. One that does not divide what the inner ones leave becomes
                that, and the outer ones 1.
        """
        _, extent = loop_bounds(IndexSymbols(), self.loop_op(loop))
        given = n if decision is None else len(decision)
        if n < 1 or given != n:
            raise ScheduleError(
                f"sample_perfect_tile: expected at least one factor and one decision for "
                f"each, got {n} and {given}"
            )
        if decision is not None and isinstance(extent, int):
            factors = _fitting_factors(extent, decision)
        elif decision is not None:
            factors = [int(f) for f in decision]
        elif isinstance(extent, int):
            factors = self._perfect_tile(extent, n, max_innermost_factor)
        else:
            factors = [-1, *[1] * (n - 1)]
        made = self._factor_variables(factors)
        attrs = [n, max_innermost_factor]
        self.record("SamplePerfectTile", [loop], attrs, made, factors)
        return made

    def _factor_variables(self, factors: Sequence[int]) -> list[ExprRV]:
        """Random variables for factors; None for the inferred factor -1."""
        return [None if f == -1 else self.new_number(f) for f in factors]

    def _perfect_tile(self, extent: int, count: int, limit: int) -> list[int]:
        limit_of_last = extent if limit < 0 else limit
        last = self._random.choice(
            [d for d in _divisors(extent) if d <= limit_of_last or count == 1]
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
        """Sample factors of a loop extent, whose inner product is a multiple of a given number.

        Args:
            loop: the loop; if its extent is not constant, the first factor is None and the others
                are 1.
            n: the number of factors.
            partition_pos: the index of the first inner factor.
            innerpart_factor: a divisor of the product of the inner factors.
            decision: the factors.
        """
        position, inner = (
            self.int_value(partition_pos),
            self.int_value(innerpart_factor),
        )
        if not 0 <= position <= n or inner <= 0:
            raise ScheduleError(
                "sample_partitioned_tile: expected a position from 0 to "
                f"{n} and a factor above 0, got {position} and {inner}"
            )
        _, extent = loop_bounds(IndexSymbols(), self.loop_op(loop))
        if decision is not None:
            factors = [int(f) for f in decision]
        elif not isinstance(extent, int):
            factors = [-1, *[1] * (n - 1)]
        elif extent % inner or (position == n and inner != 1):
            factors = [extent, *[1] * (n - 1)]
        else:
            factors = self._partitioned_tile(extent, n, position, inner)
        made = self._factor_variables(factors)
        attrs = [n, position, inner]
        self.record("SamplePartitionedTile", [loop], attrs, made, factors)
        return made

    def _partitioned_tile(
        self, extent: int, count: int, position: int, inner: int
    ) -> list[int]:
        """Outer factors of a divisor of ``extent // inner``, and factors of the rest."""
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
        """Sample a compute location of a block: a loop of its consumers, inlining, or none.

        Args:
            block: the block.
            decision: the index of the loop around the first consumer; -1 to stay, -2 to inline.

        Returns:
            A loop argument for :meth:`compute_at` and :meth:`reverse_compute_at`.
        """
        block = self.resolve_block(block)
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
        made = (
            self.new_loop(around[chosen]) if chosen >= 0 else self.new_sentinel(chosen)
        )
        self.record("SampleComputeLocation", [block], [], [made], chosen)
        return made


def _locations(
    block: ir.Operation,
    consumers: Sequence[ir.Operation],
    around: Sequence[ir.Operation],
) -> list[int]:
    """The candidate locations: nontrivial loops around all consumers, and the sentinels.

    Spatial loops inside a reduce loop are excluded.
    """
    found = [-1]
    with contextlib.suppress(ScheduleError):
        inline.check_inline(block)
        found.insert(0, -2)
    in_reduction = False
    for number, loop in enumerate(around):
        if any(loop not in tree.enclosing_loops(c) for c in consumers):
            break
        indices = IndexSymbols()
        if loop_bounds(indices, loop)[1] == 1:
            continue
        is_reduce = indices.symbol(loop_var(loop)) in symbols_of_iters(
            consumers[0], indices, "R"
        )
        if in_reduction and not is_reduce:
            break
        in_reduction = in_reduction or is_reduce
        found.append(number)
    return found


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _fitting_factors(extent: int, decision: Sequence[int]) -> list[int]:
    """Factors of an extent, adapted from a decision for another extent."""
    found: list[int] = []
    rest = extent
    for factor in reversed([int(f) for f in decision[1:]]):
        chosen = rest if factor < 1 or rest % factor else factor
        found.append(chosen)
        rest //= chosen
    return [rest, *reversed(found)]
