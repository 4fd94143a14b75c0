"""A thread of attention: the scores of some rows, and what it does with them.

Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning, 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    ceil_div,
    constant,
    div,
    lane_of,
    less,
    maximum,
    minimum,
    multiply,
    op,
    product,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.gpu.attention_products import Layout, Tile, by_rows
from relax_mlir.schedules.gpu.attention_results import Results
from relax_mlir.schedules.gpu.attention_rows import (
    SUM,
    RowState,
    Weighed,
    of_all_threads,
    of_thread,
    weighed,
)
from relax_mlir.schedules.gpu.attention_scores import ScoreMaps
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import launch

__all__ = ["AttentionThread", "Rows", "keys_seen", "launch_rows"]


@dataclass(frozen=True)
class Rows:
    """Rows of a head that some threads have.

    Attributes:
        heads: which head; of_scores, of_values: the same in the axes of each product.
        first: the number of the first; step: they begin at a multiple of so many.
    """

    heads: Sequence[Extent]
    of_scores: Mapping[int, Extent]
    of_values: Mapping[int, Extent]
    first: Extent
    step: int


def launch_rows(
    plan: SoftmaxPlan,
    rows: int,
    threads: int,
    body: Callable[[Rows, ir.Value], None],
) -> None:
    """A launch of blocks for so many rows of a head: ``body(rows, thread)``.

    Blocks of a head, which share its keys, are neighbours. The last rows, which see the most
    keys, come first.
    """
    attention = plan.attention
    *heads, queries = attention.extents
    count = ceil_div(queries, rows)
    tiles = [*heads, count]

    def block(number: ir.Value, thread: ir.Value) -> None:
        *head, after = unflatten(number, tiles)
        tile = subtract(subtract(count, 1), after)
        of_scores, of_values = (
            {axis: p for axis, p in zip(axes, head, strict=False) if axis is not None}
            for axes in (attention.score_axes, attention.value_axes)
        )
        body(Rows(head, of_scores, of_values, multiply(tile, rows), rows), thread)

    launch(product(tiles), threads, block)


def keys_seen(plan: SoftmaxPlan, first: Extent, row: int) -> Extent:
    """How many keys a row sees, at the most: those before are its own.

    Args:
        row: its number from the row ``first`` on.
    """
    keys = plan.attention.keys
    if plan.sight is None:
        return keys
    seen = add(first, row + plan.sight.reach + 1)
    return minimum(keys, maximum(seen, 0))


class AttentionThread:
    """Writes what a thread does with the scores of its rows.

    What maps read for rows is read where it is made.

    Args:
        plan: what is computed; layout: which of the scores a thread has.
        rows: of the threads that share them; thread: its number among these.
        lanes: neighbouring keys for which maps of scores run at once: as many as a thread
            has, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        layout: Layout,
        rows: Rows,
        thread: Extent,
        lanes: int,
    ) -> None:
        self._plan, self._layout, self._lanes = plan, layout, lanes
        self._thread, self._first, self._keys = thread, rows.first, plan.attention.keys
        self._rows = [
            add(rows.first, layout.row(thread, n)) for n in range(layout.rows)
        ]
        queries = plan.attention.extents[-1]
        within = [_within(row, queries, rows.step) for row in self._rows]
        self._maps = ScoreMaps(plan, rows.heads, rows.of_scores, within)

    def start(self) -> RowState:
        """What it knows before it meets any key."""
        f32, layout = ir.F32Type.get(), self._layout
        top = op("arith.constant", f32, value=self._plan.top.start)
        zero, lanes = constant(0.0, f32), layout.value_lanes
        row = [broadcast(zero, lanes)] * layout.pieces(layout.width, lanes)
        count = layout.rows
        return RowState([top] * count, [zero] * count, [row] * count)

    @property
    def whole_tiles(self) -> Extent:
        """How many tiles there are of which all rows see all keys: the first ones."""
        return div(keys_seen(self._plan, self._first, 0), self._layout.keys)

    def mapped(self, scores: Tile, first: Extent) -> Tile:
        """What the softmax gets of the keys from one on."""
        if self._are_all_whole:
            return self.mapped_whole(scores, first)
        last = add(first, self._layout.keys - 1)
        are_seen = less(last, keys_seen(self._plan, self._first, 0))
        ways = (
            partial(way, scores, first)
            for way in (self.mapped_whole, self.mapped_partly)
        )
        return _either(are_seen, scores, *ways)

    def mapped_whole(self, scores: Tile, first: Extent) -> Tile:
        """The same of keys all of which are there, and seen by all rows."""
        return self._mapped_there(scores, first, are_seen=True)

    def mapped_partly(self, scores: Tile, first: Extent) -> Tile:
        """The same of keys of which some are not; the least number beyond the last."""
        if self._has_whole_tiles:
            return self._mapped_there(scores, first, are_seen=False)
        single, places = _apart(scores, self._columns(first), self._layout.score_lanes)
        within = [_within(key, self._keys, self._layout.keys) for key in places]
        least = constant(self._plan.greatest.identity, ir.F32Type.get())
        are_there = [less(key, self._keys) for key in places]
        mapped = [
            [
                op("arith.select", least.type, is_there, number, least)
                for number, is_there in zip(row, are_there, strict=True)
            ]
            for row in self._maps.run(single, within, 1, are_seen=False)
        ]
        return _joined(mapped, self._layout.score_lanes)

    @property
    def _has_whole_tiles(self) -> bool:
        """Whether no tile goes on behind the last key."""
        return isinstance(self._keys, int) and self._keys % self._layout.keys == 0

    @property
    def _are_all_whole(self) -> bool:
        return self._has_whole_tiles and self._plan.sight is None

    def _columns(self, first: Extent) -> list[Extent]:
        """The keys at which its neighbours begin."""
        layout = self._layout
        lanes = layout.score_lanes
        return [
            add(first, layout.column(self._thread, n, lanes))
            for n in range(layout.pieces(layout.keys, lanes))
        ]

    def _mapped_there(self, scores: Tile, first: Extent, *, are_seen: bool) -> Tile:
        """What the softmax gets of keys that are there."""
        keys, lanes = self._columns(first), self._layout.score_lanes
        if self._lanes == lanes:
            return self._maps.run(scores, keys, lanes, are_seen=are_seen)
        single, places = _apart(scores, keys, lanes)
        mapped = self._maps.run(single, places, 1, are_seen=are_seen)
        return _joined(mapped, lanes)

    def weighed(self, mapped: Tile, before: RowState) -> Weighed:
        """The weights of a tile of scores, and what it knows of its rows with them."""
        plan, way = self._plan, self._plan.greatest
        greatest = [of_all_threads(of_thread(row, way), way) for row in mapped]
        scale = plan.scale or 1
        # A map may add what hides scores: then the greatest is too large to be scaled apart.
        is_exact = plan.is_exact or plan.scale is None
        return weighed(mapped, greatest, before, way, scale=scale, is_exact=is_exact)

    def write(self, results: Results, found: RowState) -> None:
        """Write the results of its rows, once all keys are met."""
        lanes = self._layout.value_lanes
        for row, top, part, sums in zip(
            self._rows, found.tops, found.totals, found.sums, strict=True
        ):
            columns = [
                (self._layout.column(self._thread, n, lanes), value)
                for n, value in enumerate(sums)
            ]
            results.write(row, top, of_all_threads(part, SUM), columns)


def _within(place: Extent, extent: Extent, step: int) -> Extent:
    """The nearest place that there is; places are whole steps otherwise."""
    if isinstance(extent, int) and extent % step == 0:
        return place
    return minimum(place, subtract(extent, 1))


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
