"""The launch of attention: a block for some queries of a head, which meet keys tile by tile.

Scores stay in registers. For every row its threads know the greatest score so far and the
sum of the exponentials of what scores are less; where a tile has a greater one, that sum and
the values that were added are scaled.

Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.contraction_axes import merged
from relax_mlir.schedules.contraction_plan import Factor, Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    for_loop,
    multiply,
    op,
    rem,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.attention_products import Products
from relax_mlir.schedules.gpu.attention_results import Results
from relax_mlir.schedules.gpu.attention_rows import RowState
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_thread import (
    AttentionThread,
    Rows,
    keys_seen,
    launch_rows,
)
from relax_mlir.schedules.gpu.attention_tiles import SharedTile, of_head
from relax_mlir.schedules.gpu.gemm_tile import Operand, Side
from relax_mlir.schedules.gpu.launch import WARP, barrier, if_less
from relax_mlir.schedules.nest import Access

__all__ = ["AttentionBlock"]

_STAGES = 2  # tiles of keys and values: one is on its way while the other is multiplied


class AttentionBlock:
    """Writes one attention.

    Args:
        plan: what it computes; rows: of a block.
        products: how a block multiplies; element: the type of what it multiplies.
        lanes: neighbouring keys for which maps of scores run at once: as many as a thread
            has, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        rows: int,
        products: Products,
        element: ir.Type,
        lanes: int,
    ) -> None:
        self._plan, self._size, self._products = plan, rows, products
        self._element, self._lanes = element, lanes
        self._threads = rows // products.warp_rows * WARP

    def write(self) -> None:
        """The launch."""
        launch_rows(self._plan, self._size, self._threads, self._write_block)

    def _write_block(self, rows: Rows, thread: ir.Value) -> None:
        """What a thread does for rows of a head."""
        self._rows, self._thread = rows, thread
        products = self._products
        self._own = AttentionThread(self._plan, products, rows, thread, self._lanes)
        self._place_tiles(rows.of_scores, rows.of_values)
        products.begin(self._size)
        results = Results(self._plan, rows.heads, rows.of_values, products.value_lanes)
        self._own.write(results, self._meet_keys(rows.of_scores, rows.of_values))

    def _place_tiles(
        self, of_scores: Mapping[int, Extent], of_values: Mapping[int, Extent]
    ) -> None:
        """Make room for queries, keys and values of a head."""
        attention, products = self._plan.attention, self._products
        factors = (
            attention.scores.rows_of,
            attention.scores.columns_of,
            attention.values.columns_of,
        )
        whole = [Flat.of(factor.access) for factor in factors]
        heads = (of_scores, of_scores, of_values)
        own = [of_head(flat, head) for flat, head in zip(whole, heads, strict=True)]
        operands = self._operands(factors, own)
        # Copies lie as what they are of.
        self._are_copied = all(
            o.is_copied and is_turned != o.is_along_sum
            for o, is_turned in zip(operands, self._are_turned(operands), strict=True)
        )
        if not self._are_copied:
            operands = self._operands(factors, whole)
        stages = _STAGES if self._are_copied else 1
        self._tiles = [
            SharedTile.of(o, count, products.pad, is_turned=is_turned)
            for o, count, is_turned in zip(
                operands, (1, stages, stages), self._are_turned(operands), strict=True
            )
        ]

    def _are_turned(self, operands: Sequence[Operand]) -> list[bool]:
        """Which of queries, keys and values have points side by side, not steps."""
        *of_scores, values = operands
        is_turned = self._products.is_turned
        found = [is_turned(operand, is_of_scores=True) for operand in of_scores]
        return [*found, is_turned(values, is_of_scores=False)]

    def _operands(
        self, factors: Sequence[Factor], flats: Sequence[Flat]
    ) -> list[Operand]:
        """Queries, keys and values in tiles."""
        attention, products = self._plan.attention, self._products
        scores, values = attention.scores, attention.values
        depth = _side(scores, scores.k, (scores.a, scores.b))
        keys = _side(values, values.k)
        sides = (
            (_side(scores, scores.m[-1:]), depth, self._size, products.depth),
            (_side(scores, scores.n), depth, products.keys, products.depth),
            (_side(values, values.n, (values.b,)), keys, products.width, products.keys),
        )
        return [
            Operand(
                factor, flat, side, along, size, steps, self._element, self._threads
            )
            for factor, flat, (side, along, size, steps) in zip(
                factors, flats, sides, strict=True
            )
        ]

    def _meet_keys(
        self, of_scores: Mapping[int, Extent], of_values: Mapping[int, Extent]
    ) -> RowState:
        """All tiles of keys, one after the other.

        Args:
            of_scores, of_values: the head, in the axes of each product.
        """
        queries, keys, values = self._tiles
        thread, size = self._thread, self._products.keys

        def copy(tile: Extent) -> None:
            stage, first = rem(tile, _STAGES), multiply(tile, size)
            keys.copy(of_scores, first, 0, thread, stage)
            values.copy(of_values, 0, first, thread, stage)
            op("nvvm.cp.async.commit.group", None)

        def meet_copied(tile: ir.Value, *before: ir.Value) -> list[ir.Value]:
            # This tile has arrived for all threads, and they have left the other one.
            _wait_for_copies()
            barrier()
            copy(add(tile, 1))
            return self._meet(tile, rem(tile, _STAGES), start.of(before)).values

        def meet_put(tile: ir.Value, *before: ir.Value) -> list[ir.Value]:
            first = multiply(tile, size)
            barrier()
            keys.put(of_scores, first, 0, thread)
            values.put(of_values, 0, first, thread)
            barrier()
            return self._meet(tile, 0, start.of(before)).values

        if self._are_copied:
            queries.copy(of_scores, self._rows.first, 0, thread, 0)
            if_less(0, self._plan.attention.keys, lambda: copy(0))
        else:
            queries.put(of_scores, self._rows.first, 0, thread)
        start = self._own.start()
        meet = meet_copied if self._are_copied else meet_put
        seen = keys_seen(self._plan, self._rows.first, self._size - 1)
        count = ceil_div(seen, size)
        return start.of(for_loop(0, count, 1, meet, start.values))

    def _meet(self, tile: Extent, stage: Extent, before: RowState) -> RowState:
        """A tile of keys."""
        queries, keys, values = self._tiles
        products, start = self._products, self._plan.attention.scores.anchor.start
        assert start is not None  # it is a sum from a constant
        scores = products.scores(queries.at(0), keys.at(stage), self._thread, start)
        mapped = self._own.mapped(scores, multiply(tile, products.keys))
        found = self._own.weighed(mapped, before)
        after, at = found.state(before.sums), values.at(stage)
        sums = products.weighted(found.weights, at, after.sums, self._thread)
        return replace(after, sums=sums)


def _side(
    plan: Plan, axes: Sequence[int], accesses: Sequence[Access] | None = None
) -> Side:
    """Axes of a product, those as one that all accesses walk as one."""
    return Side(merged(axes, plan.anchor.extents, accesses or ()))


def _wait_for_copies() -> None:
    """All copies of a thread have arrived."""
    none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    op("nvvm.cp.async.wait.group", None, n=none)
