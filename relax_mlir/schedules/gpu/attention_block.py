"""The launch of attention: a block for some queries of a head, which meet keys tile by tile.

Scores stay in registers. For every row its threads know the greatest score so far and the
sum of the exponentials of what scores are less; where a tile has a greater one, that sum and
the values that were added are scaled.

Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning, 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mlir import ir

from relax_mlir.schedules.contraction_axes import merged
from relax_mlir.schedules.contraction_plan import Factor, Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    ceil_div,
    constant,
    for_loop,
    lane_of,
    less,
    maximum,
    minimum,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.attention_products import Products, Tile, by_rows
from relax_mlir.schedules.gpu.attention_results import Results
from relax_mlir.schedules.gpu.attention_rows import (
    SUM,
    RowState,
    of_all_threads,
    of_thread,
    weighed,
)
from relax_mlir.schedules.gpu.attention_scores import ScoreMaps
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_tiles import SharedTile, of_head
from relax_mlir.schedules.gpu.gemm_tile import Operand, Side
from relax_mlir.schedules.gpu.launch import WARP, barrier, if_less, launch
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
        self._plan, self._rows, self._products = plan, rows, products
        self._element, self._lanes = element, lanes
        self._threads = rows // products.warp_rows * WARP
        *self._heads, self._queries = plan.attention.extents
        self._keys = plan.attention.keys

    def write(self) -> None:
        """The launch; blocks of a head, which share its keys, are neighbours.

        The last rows, which see the most keys, come first.
        """
        count = ceil_div(self._queries, self._rows)
        tiles = [*self._heads, count]

        def block(number: ir.Value, thread: ir.Value) -> None:
            *heads, after = unflatten(number, tiles)
            tile = subtract(subtract(count, 1), after)
            self._thread, self._first = thread, multiply(tile, self._rows)
            self._write_block(heads)

        launch(product(tiles), self._threads, block)

    def _write_block(self, heads: Sequence[Extent]) -> None:
        """What a thread does for rows of a head."""
        attention, products = self._plan.attention, self._products
        of_scores, of_values = (
            {axis: p for axis, p in zip(axes, heads, strict=False) if axis is not None}
            for axes in (attention.score_axes, attention.value_axes)
        )
        count, lanes = products.rows, products.value_lanes
        rows = [add(self._first, products.row(self._thread, n)) for n in range(count)]
        within = [self._within(row, self._queries, self._rows) for row in rows]
        self._maps = ScoreMaps(self._plan, heads, of_scores, within)
        self._place_tiles(of_scores, of_values)
        products.begin(self._rows)
        results = Results(self._plan, heads, of_values, lanes)
        found = self._meet_keys(of_scores, of_values)
        for row, top, part, sums in zip(
            rows, found.tops, found.totals, found.sums, strict=True
        ):
            columns = [
                (products.column(self._thread, n, lanes), value)
                for n, value in enumerate(sums)
            ]
            results.write(row, top, of_all_threads(part, SUM), columns)

    def _within(self, place: Extent, extent: Extent, step: int) -> Extent:
        """The nearest place that there is; places are whole steps otherwise."""
        if isinstance(extent, int) and extent % step == 0:
            return place
        return minimum(place, subtract(extent, 1))

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
            (_side(scores, scores.m[-1:]), depth, self._rows, products.depth),
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
            queries.copy(of_scores, self._first, 0, thread, 0)
            if_less(0, self._keys, lambda: copy(0))
        else:
            queries.put(of_scores, self._first, 0, thread)
        start = self._start()
        meet = meet_copied if self._are_copied else meet_put
        count = ceil_div(self._seen_keys(self._rows - 1), size)
        return start.of(for_loop(0, count, 1, meet, start.values))

    def _seen_keys(self, row: int) -> Extent:
        """How many keys a row of the block sees, at the most: those before are its own."""
        if self._plan.sight is None:
            return self._keys
        seen = add(self._first, row + self._plan.sight.reach + 1)
        return minimum(self._keys, maximum(seen, 0))

    def _start(self) -> RowState:
        """What threads know before they meet any key."""
        f32, products = ir.F32Type.get(), self._products
        top = op("arith.constant", f32, value=self._plan.top.start)
        zero, lanes = constant(0.0, f32), products.value_lanes
        row = [broadcast(zero, lanes)] * products.pieces(products.width, lanes)
        count = products.rows
        return RowState([top] * count, [zero] * count, [row] * count)

    def _meet(self, tile: Extent, stage: Extent, before: RowState) -> RowState:
        """A tile of keys."""
        queries, keys, values = self._tiles
        products, start = self._products, self._plan.attention.scores.anchor.start
        assert start is not None  # it is a sum from a constant
        scores = products.scores(queries.at(0), keys.at(stage), self._thread, start)
        mapped = self._mapped(scores, multiply(tile, products.keys))
        way, is_exact = self._plan.greatest, isinstance(self._element, ir.F32Type)
        greatest = [of_all_threads(of_thread(row, way), way) for row in mapped]
        weights, after = weighed(mapped, greatest, before, way, is_exact=is_exact)
        sums = products.weighted(weights, values.at(stage), after.sums, self._thread)
        return replace(after, sums=sums)

    def _mapped(self, scores: Tile, first: Extent) -> Tile:
        """What the softmax gets of the keys from one on; the least number beyond the last."""
        products, lanes = self._products, self._products.score_lanes
        keys = [
            add(first, products.column(self._thread, n, lanes))
            for n in range(products.pieces(products.keys, lanes))
        ]

        def all_of_them(*, are_seen: bool = True) -> Tile:
            if self._lanes == lanes:
                return self._maps.run(scores, keys, lanes, are_seen=are_seen)
            single, places = _apart(scores, keys, lanes)
            mapped = self._maps.run(single, places, 1, are_seen=are_seen)
            return _joined(mapped, lanes)

        def some_of_them() -> Tile:
            single, places = _apart(scores, keys, lanes)
            within = [self._within(key, self._keys, products.keys) for key in places]
            least = constant(self._plan.greatest.identity, ir.F32Type.get())
            are_there = [less(key, self._keys) for key in places]
            mapped = [
                [
                    op("arith.select", least.type, is_there, number, least)
                    for number, is_there in zip(row, are_there, strict=True)
                ]
                for row in self._maps.run(single, within, 1, are_seen=False)
            ]
            return _joined(mapped, lanes)

        otherwise: Callable[[], Tile] = some_of_them
        if isinstance(self._keys, int) and self._keys % products.keys == 0:
            if self._plan.sight is None:
                return all_of_them()
            otherwise = partial(all_of_them, are_seen=False)
        are_whole = less(add(first, products.keys - 1), self._seen_keys(0))
        return _either(are_whole, scores, all_of_them, otherwise)


def _side(
    plan: Plan, axes: Sequence[int], accesses: Sequence[Access] | None = None
) -> Side:
    """Axes of a product, those as one that all accesses walk as one."""
    return Side(merged(axes, plan.anchor.extents, accesses or ()))


def _wait_for_copies() -> None:
    """All copies of a thread have arrived."""
    none = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0)
    op("nvvm.cp.async.wait.group", None, n=none)


def _apart(
    scores: Tile, keys: Sequence[Extent], lanes: int
) -> tuple[Tile, list[Extent]]:
    """Scores one by one, and their keys."""
    single = [
        [lane_of(vector, n) for vector in row for n in range(lanes)] for row in scores
    ]
    return single, [add(key, n) for key in keys for n in range(lanes)]


def _joined(numbers: Tile, lanes: int) -> Tile:
    """Neighbours as vectors again."""
    type_ = vector_type(lanes, ir.F32Type.get())
    return [
        [
            op("vector.from_elements", type_, *row[n : n + lanes])
            for n in range(0, len(row), lanes)
        ]
        for row in numbers
    ]


def _either(
    condition: ir.Value,
    like: Tile,
    then: Callable[[], Tile],
    otherwise: Callable[[], Tile],
) -> Tile:
    """What one of two ways gives: as many numbers as ``like`` has."""
    types = [value.type for row in like for value in row]
    created = ir.Operation.create(
        "scf.if", results=types, operands=[condition], regions=2
    )
    for region, write in zip(created.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            found = [value for row in write() for value in row]
            ir.Operation.create("scf.yield", operands=found)
    return by_rows(list(created.results), len(like))
