"""Queries, keys and values of attention, as the copy engine brings them to shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis, groups
from relax_mlir.schedules.contraction_plan import Factor, Plan
from relax_mlir.schedules.emit import Extent, add, multiply, product, static
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.launch import if_less
from relax_mlir.schedules.gpu.pipeline import Barriers, Turn
from relax_mlir.schedules.gpu.tensor_boxes import (
    ROW_BYTES,
    Boxes,
    boxes_of,
    window_axes,
)
from relax_mlir.schedules.gpu.wgmma import Matrix
from relax_mlir.schedules.nest import Access
from relax_mlir.schedules.rule import Refusal

__all__ = ["Operands", "Ring", "Tiles"]


@dataclass(frozen=True)
class Tiles:
    """An operand in tiles, which are some slices along the sum each.

    Attributes:
        boxes: of a slice; slices: how many; summed: the axis of the sum.
    """

    boxes: Boxes
    slices: int
    summed: int

    @property
    def wide(self) -> int:
        """Steps of the sum in a slice: 128 bytes of them."""
        return ROW_BYTES * 8 // self.boxes.factor.element.width

    @property
    def bytes(self) -> int:
        """Of shared memory."""
        return self.slices * self.boxes.slice_bytes

    @property
    def copied_bytes(self) -> int:
        """That come for a tile."""
        return self.slices * self.boxes.copied_bytes

    def matrix(self, memory: ir.Value) -> Matrix:
        """The first slice of shared memory, as products read it."""
        is_along_sum = self.boxes.is_along_sum
        element = str(self.boxes.factor.element)
        return Matrix.at(memory, element, self.wide, is_along_sum=is_along_sum)

    def step(self, tile: Matrix, number: int) -> Matrix:
        """What one instruction reads of a tile, by its number along the sum."""
        slice_, within = divmod(number, self.wide // tile.steps)
        return tile.moved(slice_ * self.boxes.slice_bytes).after(within)


@dataclass(frozen=True)
class Ring:
    """Tiles in shared memory, which are on their way or multiplied.

    Attributes:
        full: tells which have come; empty: which may be overwritten; None if none will be.
        stages: how many there is room for.
    """

    tiles: Tiles
    memory: ir.Value
    full: Barriers
    empty: Barriers | None
    stages: int

    @staticmethod
    def create(tiles: Tiles, stages: int, *, is_refilled: bool = True) -> Ring:
        """Room for some tiles, at the top of a launch."""
        memory = tiles.boxes.alloc(stages * tiles.slices)
        full, empty = Barriers.create(stages), None
        if is_refilled:
            empty = Barriers.create(stages)
        return Ring(tiles, memory, full, empty, stages)

    def start(self, readers: int) -> None:
        """Make the barriers, by one thread.

        Args:
            readers: warpgroups that say when they have read a tile.
        """
        for number in range(self.stages):
            self.full.start(number, 1)
            if self.empty is not None:
                self.empty.start(number, readers)

    def bring(
        self, descriptor: ir.Value, point: Mapping[int, Extent], turn: Turn
    ) -> None:
        """Begin to bring a tile, by one thread, as soon as there is room.

        Args:
            point: where it begins.
        """
        if self.empty is not None:
            self.empty.wait(turn.stage, turn.other_parity())
        tiles = self.tiles
        self.full.expect(turn.stage, tiles.copied_bytes)
        begin, first = multiply(turn.stage, tiles.slices), point[tiles.summed]
        for number in range(tiles.slices):
            at = {**point, tiles.summed: add(first, number * tiles.wide)}
            place = add(begin, number)
            tiles.boxes.copy(descriptor, at, self.memory, place, self.full, turn.stage)

    def wait(self, turn: Turn) -> None:
        """Wait for the tile whose turn it is."""
        self.full.wait(turn.stage, turn.parity)

    def release(self, turn: Turn, thread: Extent) -> None:
        """Say that a warpgroup has read a tile, by its first thread."""
        empty = self.empty
        assert empty is not None
        if_less(thread, 1, lambda: empty.arrive(turn.stage))


_COLUMNS = 16  # of values, that threads have together


@dataclass(frozen=True)
class Operands:
    """Queries, keys and values, in tiles."""

    queries: Tiles
    keys: Tiles
    values: Tiles

    def bytes(self, stages: int) -> int:
        """Of shared memory: queries, and so many tiles of keys and of values."""
        return self.queries.bytes + stages * (self.keys.bytes + self.values.bytes)

    @staticmethod
    def of(plan: SoftmaxPlan, rows: int, keys: int) -> Operands:
        """In tiles of so many queries, and of so many keys.

        Raises:
            Refusal: the copy engine cannot read them so.
        """
        scores, values = plan.attention.scores, plan.attention.values
        (key,), (value,) = scores.n, values.k
        depth = _one(scores, scores.k, (scores.a, scores.b), "terms of its scores")
        columns = _one(values, values.n, (values.b,), "columns of its values")
        _check_ends(plan, depth, keys)
        of_scores = [*_outer(scores), Axis(key, plan.attention.keys), depth]
        of_values = [*_outer(values), columns, Axis(value, plan.attention.keys)]
        row, width = scores.m[-1], static(columns.extent)
        places = -(-width // _COLUMNS) * _COLUMNS
        return Operands(
            _tiles(scores.rows_of, of_scores, {row: rows}, rows, depth.extent),
            _tiles(scores.columns_of, of_scores, {key: keys}, keys, depth.extent),
            _tiles(values.columns_of, of_values, {columns.number: width}, places, keys),
        )


def _outer(product: Plan) -> list[Axis]:
    """The axes of a product that both factors, or rows alone, depend on."""
    extents = product.anchor.extents
    return [Axis(n, extents[n]) for n in (*product.outer, *product.m)]


def _one(
    plan: Plan, axes: Sequence[int], accesses: Sequence[Access], what: str
) -> Axis:
    """Axes of a product as one.

    Args:
        accesses: that must walk them as one.

    Raises:
        Refusal: they do not.
    """
    extents = plan.anchor.extents
    apart = window_axes(plan.rows_of) | window_axes(plan.columns_of)
    group, *rest = groups(axes, extents, accesses, apart)
    if rest:
        raise Refusal(f"the {what} are more than one axis")
    return Axis(group[-1], product([extents[n] for n in group]))


def _check_ends(plan: SoftmaxPlan, depth: Axis, keys: int) -> None:
    """Refuse operands that go on where a tile is not whole: there are no zeros then."""
    scores, values = plan.attention.scores, plan.attention.values
    wide = ROW_BYTES * 8 // scores.rows_of.element.width
    for factor in (scores.rows_of, scores.columns_of):
        if static(depth.extent) % wide and depth.number in window_axes(factor):
            raise Refusal("a slice crosses the end of an axis of the sum")
    extent, (value,) = plan.attention.keys, values.k
    is_even = isinstance(extent, int) and extent % keys == 0
    if not is_even and value in window_axes(values.columns_of):
        raise Refusal("its values go on behind the last key")


def _tiles(
    factor: Factor,
    axes: Sequence[Axis],
    tile: Mapping[int, int],
    places: int,
    steps: Extent,
) -> Tiles:
    """An operand in tiles.

    Args:
        axes: of the product, that of the sum last.
        tile: rows or columns of a tile, by axis; places: that there is room for.
        steps: of the sum, in a tile.
    """
    last, wide = axes[-1].number, ROW_BYTES * 8 // factor.element.width
    boxes = boxes_of(factor, axes, tile, last, -(-places // wide) * wide)
    return Tiles(boxes, -(-static(steps) // wide), last)
