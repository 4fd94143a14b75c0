"""Windows: sums over windows of neighbours, each channel by itself.

Depthwise convolutions and poolings of pictures whose channels lie side by side. A vector
holds channels; a tile is a few neighbouring results along a row, whose windows overlap,
so that what they read is read once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as all_points

from mlir import ir

from relax_mlir.schedules.cpu.contraction_axes import Axis
from relax_mlir.schedules.cpu.epilogue import Epilogue, Map, maps_after
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    ceil_div,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    parallel_loop,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.nest import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import VectorUnit
from relax_mlir.schedules.vectorize_body import BodyCloner, load

__all__ = ["Windows"]

_MOST_TAPS = 64  # of a window, which are written out
_MOST_RESULTS = 14  # of a tile
_TILE_WORK = 1 << 17  # points of windows that are worth a thread's while
_TILES = 16  # so many are enough to keep threads busy
_LOOKS_AT_POINTS = frozenset({"memref.load", "scf.if", "linalg.index"})


@dataclass(frozen=True)
class Windows:
    """Tiles of neighbouring results, each a vector of channels."""

    unit: VectorUnit

    def matches(self, kernel: Kernel) -> bool:
        """Whether the kernel is a sum over small windows, and maps of its result."""
        return _plan(kernel) is not None

    def emit(self, kernel: Kernel) -> None:
        """Write the loops at the insertion point."""
        plan = _plan(kernel)
        if plan is None:
            raise ValueError("the kernel is no sum over windows")
        _WindowLoops(plan, self.unit.bits).emit()


@dataclass(frozen=True)
class _Plan:
    """How a kernel is a sum over windows.

    Attributes:
        anchor: the statement that sums; maps: what follows.
        outer: axes before the rows of pictures; column: along a row; channel: the last.
        taps: the axes of a window.
    """

    anchor: Statement
    maps: tuple[Map, ...]
    outer: tuple[int, ...]
    column: int
    channel: int
    taps: tuple[int, ...]


def _plan(kernel: Kernel) -> _Plan | None:
    """The plan of a kernel; None if it is no sum over windows."""
    if kernel.has_loops or not kernel.statements:
        return None
    anchor, *rest = kernel.statements
    if not anchor.is_reduction or anchor.start is None or len(anchor.outputs) != 1:
        return None
    if any(o.operation.name in _LOOKS_AT_POINTS for o in anchor.body.operations):
        return None
    (out,) = anchor.outputs
    axes = [form.single_axis for form in out.forms if form.coefficients]
    spatial = [axis for axis in axes if axis is not None]
    if len(spatial) != anchor.kinds.count("S") or len(spatial) < 2:
        return None
    *outer, column, channel = spatial
    taps = [i for i, kind in enumerate(anchor.kinds) if kind == "R"]
    counts = [anchor.extents[axis] for axis in taps]
    if not all(isinstance(c, int) for c in counts):
        return None
    if not 1 < math.prod(c for c in counts if isinstance(c, int)) <= _MOST_TAPS:
        return None
    if out.stride_of(channel) != 1 or not all(
        access.stride_of(channel) in (0, 1) for access in anchor.inputs
    ):
        return None
    if not any(_slides(access, column, taps) for access in anchor.inputs):
        return None
    if not all(_is_plain(a) for a in (*anchor.inputs, out)):
        return None
    maps = maps_after(anchor, (channel,), rest, kernel)
    if maps is None:
        return None
    return _Plan(anchor, maps, tuple(outer), column, channel, tuple(taps))


def _slides(access: Access, column: int, taps: Sequence[int]) -> bool:
    """Whether a window of an operand moves along the row."""
    return access.stride_of(column) not in (0, None) and bool(access.axes & set(taps))


def _is_plain(access: Access) -> bool:
    """Whether its places along all axes are known sums."""
    return all(None not in (access.stride_of(axis),) for axis in access.axes)


class _WindowLoops:
    """Writes the loops of one sum over windows."""

    def __init__(self, plan: _Plan, vector_bits: int) -> None:
        self.plan = plan
        self.extents = plan.anchor.extents
        element = plan.anchor.outputs[0].buffer.type.element_type
        widths = [a.buffer.type.element_type.width for a in plan.anchor.accesses]
        self.element = element
        self.lanes = vector_bits // max([32, *widths])
        self.epilogue = Epilogue(plan.anchor, plan.maps, (plan.channel,), self.lanes)
        self.column = Axis(plan.column, self.extents[plan.column])
        self.width = _tile_width(self.column.extent)

    def emit(self) -> None:
        """Write them at the insertion point."""
        rows = product([self.extents[axis] for axis in self.plan.outer])
        per_row = [self.extents[i] for i in (*self.plan.taps, self.plan.column)]
        work = max(1, point_count([*per_row, self.extents[self.plan.channel]]))
        per_tile = max(1, _TILE_WORK // work)
        if isinstance(rows, int):
            per_tile = max(1, min(per_tile, -(-rows // _TILES) if rows else 1))

        def tile(number: ir.Value) -> None:
            begin = multiply(number, per_tile)
            end = minimum(add(begin, per_tile), rows)
            self._emit_rows(begin, end)

        grain = max(1, _TILE_WORK // (work * per_tile))
        parallel_loop(ceil_div(rows, per_tile), tile, grain=grain)

    def _emit_rows(self, begin: Extent, end: Extent) -> None:
        """Some rows of results: one vector of channels after the other, all rows of it."""
        self.inputs = [Flat.of(access) for access in self.plan.anchor.inputs]
        channels, lanes = self.extents[self.plan.channel], self.lanes
        full = subtract(channels, rem(channels, lanes))

        def vector(channel: Extent, mask: ir.Value | None) -> tuple[()]:
            at = {self.plan.channel: channel}
            for_loop(begin, end, 1, lambda row: self._emit_row(row, at, mask))
            return ()

        for_loop(0, full, lanes, lambda channel: vector(channel, None))
        left = rem(channels, lanes)
        if left == 0:
            return
        type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
        mask = op("vector.create_mask", type_, index(left))
        for_loop(0, minimum(left, 1), 1, lambda _: vector(full, mask))

    def _emit_row(
        self, row: ir.Value, channel: Mapping[int, Extent], mask: ir.Value | None
    ) -> tuple[()]:
        """The results along a row."""
        where = unflatten(row, [self.extents[axis] for axis in self.plan.outer])
        at = {**dict(zip(self.plan.outer, where, strict=True)), **channel}
        begin: Extent = 0
        width, extent = self.width, self.column.extent
        while width:
            left = rem(subtract(extent, begin), width)
            full = subtract(extent, left)

            def tile(first: ir.Value, width: int = width) -> tuple[()]:
                self._emit_tile({**at, self.column.number: first}, width, mask)
                return ()

            for_loop(begin, full, width, tile)
            begin = full
            width = left if isinstance(left, int) else width // 2
        return ()

    def _emit_tile(
        self, at: Mapping[int, Extent], width: int, mask: ir.Value | None
    ) -> None:
        """``width`` neighbouring results."""
        statement = self.plan.anchor
        read = _Reads(self, at, mask)
        start = op("arith.constant", self.element, value=statement.start)
        sums = [broadcast(start, self.lanes)] * width
        arguments: list[ir.Value] = list(statement.body.arguments)
        *inputs, total = arguments
        counts = [range(_number(self.extents[axis])) for axis in self.plan.taps]
        for tap in all_points(*counts):
            for i in range(width):
                values = {
                    argument: read.vector(number, i, tap)
                    for number, argument in enumerate(inputs)
                    if number < len(self.inputs)
                }
                values[total] = sums[i]
                cloner = BodyCloner(statement.body, [], None, self.lanes)
                (sums[i],) = cloner.run(values)
        for i, value in enumerate(sums):
            column = add(at[self.column.number], i)
            self.epilogue.store(value, {**at, self.column.number: column}, mask)


class _Reads:
    """What the windows of a tile read, each vector once."""

    def __init__(
        self, loops: _WindowLoops, at: Mapping[int, Extent], mask: ir.Value | None
    ) -> None:
        self._loops, self._mask = loops, mask
        self._starts = [flat.offset(at) for flat in loops.inputs]
        self._found: dict[tuple[int, int], ir.Value] = {}

    def vector(self, number: int, result: int, tap: Sequence[int]) -> ir.Value:
        """An operand at one point of the window of a result."""
        loops, flat = self._loops, self._loops.inputs[number]
        offset = multiply(flat.step(loops.plan.column), result)
        for axis, place in zip(loops.plan.taps, tap, strict=True):
            offset = add(offset, multiply(flat.step(axis), place))
        key = number, _number(offset)
        if key not in self._found:
            where = [index(add(self._starts[number], offset))]
            is_vector = flat.step(loops.plan.channel) != 0
            mask = self._mask if is_vector else None
            self._found[key] = load(flat.view, where, loops.lanes, int(is_vector), mask)
        return self._found[key]


def _tile_width(extent: Extent) -> int:
    """The width that leaves the narrowest rest, of those that read little per result."""
    if not isinstance(extent, int):
        return 8
    if extent <= _MOST_RESULTS:
        return max(1, extent)
    widths = range(_MOST_RESULTS, _MOST_RESULTS // 2, -1)
    return min(widths, key=lambda w: (-(-extent // w) * (w + 2), -w))


def _number(extent: Extent) -> int:
    assert isinstance(extent, int)
    return extent
