"""Register fragments of flash attention: tiles of queries, masks, the softmax of a thread.

Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
Partitioning, 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    ceil_div,
    constant,
    div,
    extract_lane,
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
from relax_mlir.schedules.gpu.attention_epilogue import AttentionEpilogue
from relax_mlir.schedules.gpu.attention_matmuls import (
    FragmentLayout,
    RowFragment,
    split_rows,
)
from relax_mlir.schedules.gpu.attention_scores import ScoreModifiers
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import launch
from relax_mlir.schedules.gpu.online_softmax import (
    SUM,
    SoftmaxState,
    SoftmaxStep,
    online_softmax_step,
    reduce_in_quad,
    reduce_in_thread,
)

__all__ = ["AttentionThread", "QueryTile", "launch_query_tiles", "visible_keys"]


@dataclass(frozen=True)
class QueryTile:
    """A tile of queries of a head.

    Attributes:
        heads: the head's indices; of_scores, of_values: the same by the axes of each matmul.
        first: the first query; alignment: ``first`` is a multiple of it.
    """

    heads: Sequence[IndexLike]
    of_scores: Mapping[int, IndexLike]
    of_values: Mapping[int, IndexLike]
    first: IndexLike
    alignment: int


def launch_query_tiles(
    plan: SoftmaxPlan,
    rows: int,
    threads: int,
    body: Callable[[QueryTile, ir.Value], None],
) -> None:
    """Emits a launch with a block for each tile of queries: ``body(tile, thread)``.

    Blocks of a head are adjacent, because they share its keys. The last rows come first: under
    a causal mask they have the most keys.
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
        body(QueryTile(head, of_scores, of_values, multiply(tile, rows), rows), thread)

    launch(product(tiles), threads, block)


def visible_keys(plan: SoftmaxPlan, first: IndexLike, row: int) -> IndexLike:
    """Number of keys that are visible to a row: the first ones, under a causal mask.

    Args:
        row: relative to ``first``.
    """
    keys = plan.attention.keys
    if plan.causal_mask is None:
        return keys
    visible = add(first, row + plan.causal_mask.diagonal + 1)
    return minimum(keys, maximum(visible, 0))


class AttentionThread:
    """Emitter of the softmax of a thread's score fragment.

    Operands of score modifiers that depend only on rows are loaded on construction.

    Args:
        plan: the attention; layout: the fragment layout.
        rows: the tile of queries; thread: id among the threads of the tile.
        lanes: vector width of score modifiers: that of the fragment, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        layout: FragmentLayout,
        rows: QueryTile,
        thread: IndexLike,
        lanes: int,
    ) -> None:
        self._plan, self._layout, self._lanes = plan, layout, lanes
        self._thread, self._first, self._keys = thread, rows.first, plan.attention.keys
        self._rows = [
            add(rows.first, layout.row(thread, n)) for n in range(layout.rows)
        ]
        queries = plan.attention.extents[-1]
        clamped = [_clamped(row, queries, rows.alignment) for row in self._rows]
        self._modifiers = ScoreModifiers(plan, rows.heads, rows.of_scores, clamped)

    def initial_state(self) -> SoftmaxState:
        """The initial softmax state."""
        f32, layout = ir.F32Type.get(), self._layout
        top = op("arith.constant", f32, value=self._plan.row_max.start)
        zero, lanes = constant(0.0, f32), layout.value_lanes
        row = [broadcast(zero, lanes)] * layout.vectors_per_row(layout.width, lanes)
        count = layout.rows
        return SoftmaxState([top] * count, [zero] * count, [row] * count)

    @property
    def full_tiles(self) -> IndexLike:
        """Number of key tiles that are fully visible to all rows: the first ones."""
        return div(visible_keys(self._plan, self._first, 0), self._layout.keys)

    def apply_modifiers(self, scores: RowFragment, first: IndexLike) -> RowFragment:
        """Emits the score modifiers of a key tile; picks the unmasked version if possible."""
        if self._all_tiles_full:
            return self.apply_modifiers_full(scores, first)
        last = add(first, self._layout.keys - 1)
        all_visible = less(last, visible_keys(self._plan, self._first, 0))
        versions = (
            partial(version, scores, first)
            for version in (self.apply_modifiers_full, self.apply_modifiers_masked)
        )
        return _emit_if(all_visible, scores, *versions)

    def apply_modifiers_full(
        self, scores: RowFragment, first: IndexLike
    ) -> RowFragment:
        """Emits the score modifiers of a fully visible key tile."""
        return self._apply_modifiers_in_bounds(scores, first, all_visible=True)

    def apply_modifiers_masked(
        self, scores: RowFragment, first: IndexLike
    ) -> RowFragment:
        """Emits the score modifiers of a masked key tile; -inf past the last key."""
        if self._keys_divide_tiles:
            return self._apply_modifiers_in_bounds(scores, first, all_visible=False)
        scalars, scalar_keys = _unpack(
            scores, self._columns(first), self._layout.score_lanes
        )
        clamped = [_clamped(key, self._keys, self._layout.keys) for key in scalar_keys]
        lowest = constant(self._plan.max_combiner.identity, ir.F32Type.get())
        in_bounds = [less(key, self._keys) for key in scalar_keys]
        modified = [
            [
                op("arith.select", lowest.type, is_in_bounds, number, lowest)
                for number, is_in_bounds in zip(row, in_bounds, strict=True)
            ]
            for row in self._modifiers.run(scalars, clamped, 1, all_visible=False)
        ]
        return _pack(modified, self._layout.score_lanes)

    @property
    def _keys_divide_tiles(self) -> bool:
        """Whether the number of keys is a multiple of the tile."""
        return isinstance(self._keys, int) and self._keys % self._layout.keys == 0

    @property
    def _all_tiles_full(self) -> bool:
        return self._keys_divide_tiles and self._plan.causal_mask is None

    def _columns(self, first: IndexLike) -> list[IndexLike]:
        """The first keys of the thread's score vectors."""
        layout = self._layout
        lanes = layout.score_lanes
        return [
            add(first, layout.column(self._thread, n, lanes))
            for n in range(layout.vectors_per_row(layout.keys, lanes))
        ]

    def _apply_modifiers_in_bounds(
        self, scores: RowFragment, first: IndexLike, *, all_visible: bool
    ) -> RowFragment:
        """Emits the score modifiers of keys that are in bounds."""
        keys, lanes = self._columns(first), self._layout.score_lanes
        if self._lanes == lanes:
            return self._modifiers.run(scores, keys, lanes, all_visible=all_visible)
        scalars, scalar_keys = _unpack(scores, keys, lanes)
        modified = self._modifiers.run(scalars, scalar_keys, 1, all_visible=all_visible)
        return _pack(modified, lanes)

    def softmax_step(self, modified: RowFragment, before: SoftmaxState) -> SoftmaxStep:
        """Emits a step of the online softmax: the weights of a key tile, and the new state."""
        plan, combiner = self._plan, self._plan.max_combiner
        row_max = [
            reduce_in_quad(reduce_in_thread(row, combiner), combiner)
            for row in modified
        ]
        scale = plan.scale or 1
        # A modifier may add a large negative mask; scaling the maximum separately is inexact.
        is_exact = plan.is_exact or plan.scale is None
        return online_softmax_step(
            modified, row_max, before, combiner, scale=scale, is_exact=is_exact
        )

    def write_epilogue(self, results: AttentionEpilogue, found: SoftmaxState) -> None:
        """Emits the epilogue of the thread's rows."""
        lanes = self._layout.value_lanes
        for row, row_max, row_sum, accumulators in zip(
            self._rows, found.row_max, found.row_sum, found.accumulators, strict=True
        ):
            columns = [
                (self._layout.column(self._thread, n, lanes), value)
                for n, value in enumerate(accumulators)
            ]
            results.write(row, row_max, reduce_in_quad(row_sum, SUM), columns)


def _clamped(index_: IndexLike, extent: IndexLike, alignment: int) -> IndexLike:
    """An index clamped to the extent, unless the extent is a multiple of the tile."""
    if isinstance(extent, int) and extent % alignment == 0:
        return index_
    return minimum(index_, subtract(extent, 1))


def _unpack(
    scores: RowFragment, keys: Sequence[IndexLike], lanes: int
) -> tuple[RowFragment, list[IndexLike]]:
    """Splits score vectors into scalars; returns these and their keys."""
    scalars = [
        [extract_lane(vector, n) for vector in row for n in range(lanes)]
        for row in scores
    ]
    return scalars, [add(key, n) for key in keys for n in range(lanes)]


def _pack(scalars: RowFragment, lanes: int) -> RowFragment:
    """Joins scalars into vectors."""
    type_ = vector_type(lanes, ir.F32Type.get())
    return [
        [
            op("vector.from_elements", type_, *row[n : n + lanes])
            for n in range(0, len(row), lanes)
        ]
        for row in scalars
    ]


def _emit_if(
    condition: ir.Value,
    like: RowFragment,
    then: Callable[[], RowFragment],
    otherwise: Callable[[], RowFragment],
) -> RowFragment:
    """Emits ``scf.if`` with fragments as results, of the shape of ``like``."""
    types = [value.type for row in like for value in row]
    created = ir.Operation.create(
        "scf.if", results=types, operands=[condition], regions=2
    )
    for region, write in zip(created.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            found = [value for row in write() for value in row]
            ir.Operation.create("scf.yield", operands=found)
    return split_rows(list(created.results), len(like))
