"""The launch of attention on Hopper: a thread that copies, warpgroups that multiply.

A block has some queries of a head. One thread brings these, and then keys and values tile by
tile, by the copy engine. Each warpgroup has 64 rows: it multiplies them with the keys of a
tile where they lie, and the weights, which stay in registers, with the values. While the
tensor cores add values of one tile, threads weigh the scores of the next; and while one
warpgroup weighs, another one's products run.

Source: Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, FlashAttention-3: Fast and Accurate
Attention with Asynchrony and Low-precision, 2024.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    div,
    for_loop,
    maximum,
    multiply,
    op,
    rem,
)
from relax_mlir.schedules.gpu.attention_boxes import Operands, Ring
from relax_mlir.schedules.gpu.attention_products import Layout, Tile, by_rows
from relax_mlir.schedules.gpu.attention_results import Results
from relax_mlir.schedules.gpu.attention_rows import RowState
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.attention_thread import (
    AttentionThread,
    Rows,
    keys_seen,
    launch_rows,
)
from relax_mlir.schedules.gpu.launch import WARP, barrier, if_less, uniform
from relax_mlir.schedules.gpu.mma import HalfFragments, word
from relax_mlir.schedules.gpu.pipeline import Turn
from relax_mlir.schedules.gpu.tensor_boxes import ROW_BYTES
from relax_mlir.schedules.gpu.wgmma import (
    ROWS,
    WARPGROUP,
    Products,
    Rotation,
    take_registers,
)

__all__ = ["AttentionWarpgroups", "AttentionWgmmaConfiguration"]

# Of a thread that copies, and of one of two warpgroups that multiply, as published.
_FEW_REGISTERS, _MANY_REGISTERS = 24, 240


@dataclass(frozen=True)
class AttentionWgmmaConfiguration(Configuration):
    """How attention is cut.

    Attributes:
        rows: of a block, queries of a head; keys: of a tile.
        stages: tiles of keys, and of values, that are on their way or multiplied.
    """

    rule = "AttentionWgmma"
    rows: int
    keys: int
    stages: int

    @property
    def warpgroups(self) -> int:
        """That multiply."""
        return self.rows // ROWS

    @property
    def threads(self) -> int:
        """Of a block. One copies: its warpgroup is whole where it gives up registers."""
        return self.warpgroups * WARPGROUP + (WARPGROUP if self.gives_up else WARP)

    @property
    def gives_up(self) -> bool:
        """Whether threads that copy leave registers to those that multiply."""
        return self.warpgroups > 1

    @property
    def most_registers(self) -> int:
        """That a thread may have which multiplies."""
        return _MANY_REGISTERS if self.gives_up else 255


@dataclass(frozen=True)
class _Carried:
    """What a warpgroup takes from one tile of keys to the next.

    Attributes:
        keys, values: whose turn it is.
        state: what a thread knows of its rows.
        weights: of the last tile, whose values are not yet added: as products take them.
    """

    keys: Turn
    values: Turn
    state: RowState
    weights: Sequence[ir.Value]

    @property
    def flat(self) -> list[ir.Value]:
        """All of it, as a loop carries it."""
        return [
            *self.keys.values,
            *self.values.values,
            *self.state.values,
            *self.weights,
        ]

    def of(self, flat: Sequence[ir.Value]) -> _Carried:
        """The same, from what a loop has carried."""
        end = 4 + len(self.state.values)
        state = self.state.of(flat[4:end])
        return _Carried(Turn(*flat[:2]), Turn(*flat[2:4]), state, flat[end:])


@dataclass(frozen=True)
class _Rings:
    """Shared memory of a block: queries, and tiles of keys and values."""

    queries: Ring
    keys: Ring
    values: Ring

    @staticmethod
    def create(operands: Operands, stages: int) -> _Rings:
        """At the top of a launch."""
        return _Rings(
            Ring.create(operands.queries, 1, is_refilled=False),
            Ring.create(operands.keys, stages),
            Ring.create(operands.values, stages),
        )


class AttentionWarpgroups:
    """Writes one attention.

    Args:
        plan: what it computes; operands: in tiles of ``made``.
        layout: what a thread has of the scores and values of its warpgroup.
        lanes: neighbouring keys for which maps of scores run at once: as many as a thread
            has, or 1.
    """

    def __init__(
        self,
        plan: SoftmaxPlan,
        made: AttentionWgmmaConfiguration,
        operands: Operands,
        layout: Layout,
        lanes: int,
    ) -> None:
        self._plan, self._made, self._operands = plan, made, operands
        self._layout, self._lanes = layout, lanes

    def write(self) -> None:
        """The launch."""
        operands = self._operands
        whole = operands.queries, operands.keys, operands.values
        maps = [tiles.boxes.describe() for tiles in whole]

        def block(rows: Rows, thread: ir.Value) -> None:
            self._write_block(maps, rows, thread)

        launch_rows(self._plan, self._made.rows, self._made.threads, block)

    def _write_block(
        self, maps: Sequence[ir.Value], rows: Rows, thread: ir.Value
    ) -> None:
        plan, made, layout = self._plan, self._made, self._layout
        rings = _Rings.create(self._operands, made.stages)
        results = Results(plan, rows.heads, rows.of_values, layout.value_lanes)

        def start() -> None:
            for ring in (rings.queries, rings.keys, rings.values):
                ring.start(made.warpgroups)
            op("nvvm.fence.mbarrier.init", None)

        if_less(thread, 1, start)
        barrier()
        tiles = ceil_div(keys_seen(plan, rows.first, made.rows - 1), made.keys)
        group = uniform(div(thread, WARPGROUP))

        def bring() -> None:
            self._take_registers(is_more=False)
            some = partial(self._bring, maps, rings, rows, tiles)
            last = made.warpgroups * WARPGROUP
            if_less(thread, last + 1, lambda: self._if_any(tiles, some))

        def consume() -> None:
            self._take_registers(is_more=True)
            mine = replace(rows, first=add(rows.first, multiply(group, ROWS)))
            within = rem(thread, WARPGROUP)
            own = AttentionThread(plan, layout, mine, within, self._lanes)
            warpgroup = _Warpgroup(made, rings, layout, own, group, within)
            self._if_any(
                tiles,
                lambda: own.write(results, warpgroup.meet_keys(tiles)),
                lambda: own.write(results, own.start()),
            )

        if_less(group, made.warpgroups, consume, bring)

    def _take_registers(self, *, is_more: bool) -> None:
        """Where several warpgroups multiply, they get what one that copies has too many."""
        if self._made.gives_up:
            count = _MANY_REGISTERS if is_more else _FEW_REGISTERS
            take_registers(count, is_more=is_more)

    def _if_any(
        self,
        tiles: Extent,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """What to do where rows of the block see keys, and where none does."""
        keys, sight = self._plan.attention.keys, self._plan.sight
        if isinstance(keys, int) and (sight is None or sight.reach >= 0):
            then()
        else:
            if_less(0, tiles, then, otherwise)

    def _bring(
        self, maps: Sequence[ir.Value], rings: _Rings, rows: Rows, tiles: Extent
    ) -> None:
        """What the thread that copies does."""
        of_queries, of_keys, of_values = maps
        scores, values = self._plan.attention.scores, self._plan.attention.values
        first, start = Turn.first(), dict.fromkeys((*scores.k, *values.n), 0)
        point = {**start, **rows.of_scores, scores.m[-1]: rows.first}
        rings.queries.bring(of_queries, point, first)

        def tile(number: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            turn, key = Turn(*carried), multiply(number, self._made.keys)
            at = {**start, **rows.of_scores, scores.n[0]: key}
            rings.keys.bring(of_keys, at, turn)
            at = {**start, **rows.of_values, values.k[0]: key}
            rings.values.bring(of_values, at, turn)
            return turn.following(self._made.stages).values

        for_loop(0, tiles, 1, tile, first.values)


class _Warpgroup:
    """Writes what a thread of a warpgroup that multiplies does.

    Args:
        own: its rows; number: of the warpgroup; thread: its number there.
    """

    def __init__(
        self,
        made: AttentionWgmmaConfiguration,
        rings: _Rings,
        layout: Layout,
        own: AttentionThread,
        number: Extent,
        thread: Extent,
    ) -> None:
        self._made, self._rings, self._layout = made, rings, layout
        self._own, self._thread = own, thread
        self._scores, self._values = Products(layout.keys), Products(layout.width)
        self._rotation = Rotation(number, made.warpgroups)
        queries, keys, values = (
            ring.tiles.matrix(ring.memory)
            for ring in (rings.queries, rings.keys, rings.values)
        )
        self._of_queries = queries.moved(multiply(number, ROWS * ROW_BYTES))
        self._of_keys, self._of_values = keys, values

    def meet_keys(self, tiles: Extent) -> RowState:
        """All tiles of keys: what a thread knows of its rows then."""
        own, size = self._own, self._made.keys
        self._rings.queries.wait(Turn.first())
        self._rotation.begin()
        carried = self._first()

        def following(mapped: Callable[[Tile, Extent], Tile]) -> Callable[..., Any]:
            def step(tile: ir.Value, *flat: ir.Value) -> list[ir.Value]:
                first = multiply(tile, size)
                return self._step(
                    carried.of(flat), lambda scores: mapped(scores, first)
                ).flat

            return step

        whole = maximum(own.whole_tiles, 1)
        flat = for_loop(1, whole, 1, following(own.mapped_whole), carried.flat)
        flat = for_loop(whole, tiles, 1, following(own.mapped_partly), flat)
        carried = carried.of(flat)
        self._rings.values.wait(carried.values)
        self._scores.begin()
        sums = self._add_values(carried)
        self._scores.wait(0)
        self._rotation.end()
        return replace(carried.state, sums=self._tile(sums))

    def _first(self) -> _Carried:
        """The scores of the first tile."""
        turn, start, keys = Turn.first(), self._own.start(), self._rings.keys
        keys.wait(turn)
        self._scores.begin()
        sums = self._multiply(turn)
        self._scores.wait(0)
        keys.release(turn, self._thread)
        mapped = self._own.mapped(self._tile(self._scores.numbers(sums)), 0)
        found = self._own.weighed(mapped, start)
        state = RowState(found.tops, found.totals, start.sums)
        following = turn.following(self._made.stages)
        return _Carried(following, turn, state, self._narrow(found.weights))

    def _step(self, before: _Carried, mapped: Callable[[Tile], Tile]) -> _Carried:
        """The scores of a tile, while the values of the one before are added."""
        rings, stages = self._rings, self._made.stages
        rings.keys.wait(before.keys)
        self._rotation.wait()
        self._scores.begin()
        scores = self._multiply(before.keys)
        rings.values.wait(before.values)
        sums = self._add_values(before)
        self._rotation.pass_on()
        self._scores.wait(1)
        rings.keys.release(before.keys, self._thread)
        found = self._own.weighed(
            mapped(self._tile(self._scores.numbers(scores))), before.state
        )
        self._scores.wait(0)
        rings.values.release(before.values, self._thread)
        return _Carried(
            before.keys.following(stages),
            before.values.following(stages),
            found.state(self._tile(sums)),
            self._narrow(found.weights),
        )

    def _multiply(self, turn: Turn) -> ir.Value:
        """Begin to multiply queries with the keys of a tile."""
        queries, keys = self._rings.queries.tiles, self._rings.keys.tiles
        tile = self._of_keys.moved(multiply(turn.stage, keys.bytes))
        sums = None
        for number in range(self._layout.depth // tile.steps):
            rows = queries.step(self._of_queries, number)
            sums = self._scores.add(rows, keys.step(tile, number), sums)
        assert sums is not None  # a score has terms
        self._scores.commit()
        return sums

    def _add_values(self, carried: _Carried) -> list[ir.Value]:
        """Begin to add the values of the last tile, times their weights."""
        tiles, turn = self._rings.values.tiles, carried.values
        tile = self._of_values.moved(multiply(turn.stage, tiles.bytes))
        groups = self._layout.sums(carried.state.sums)
        sums = [number for group in groups for number in group]
        for number in range(self._layout.keys // tile.steps):
            weights = carried.weights[4 * number : 4 * number + 4]
            columns = tiles.step(tile, number)
            added = self._values.add_registers(weights, columns, sums)
            sums = self._values.numbers(added)
        self._values.commit()
        return sums

    def _tile(self, numbers: Sequence[ir.Value]) -> Tile:
        """Sums of products, by row of the thread."""
        return self._layout.tile(by_rows(numbers, len(numbers) // 4))

    def _narrow(self, weights: Tile) -> list[ir.Value]:
        """Weights as products take them: four words for each 16 keys."""
        fragments = HalfFragments(self._rings.keys.tiles.boxes.factor.element)
        upper, lower = weights
        pairs = list(zip(upper, lower, strict=True))
        return [
            word(register)
            for n in range(0, len(pairs), 2)
            for register in fragments.rows_of_sums(pairs[n : n + 2])
        ]
