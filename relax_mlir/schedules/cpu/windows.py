"""Windows: sums over windows of neighbours, each channel by itself.

Depthwise convolutions and poolings of pictures whose channels lie side by side. A vector
holds channels; a tile is a few neighbouring results along a row, whose windows overlap,
so that what they read is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product as all_points

from mlir import ir

from relax_mlir.indexing import Form, Linear
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.cpu.windows_plan import WindowsPlan, plan_windows
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
    static,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.nest import Access, Kernel, point_count
from relax_mlir.schedules.padding import Padding
from relax_mlir.schedules.rule import (
    Rule,
)
from relax_mlir.schedules.vectorize_body import BodyCloner, load

__all__ = ["Windows", "WindowsConfiguration"]

_MOST_RESULTS = 14  # of a tile
_TILE_WORK = 1 << 17  # points of windows that are worth a thread's while
_TILES = 16  # so many are enough to keep threads busy


@dataclass(frozen=True)
class WindowsConfiguration(Configuration):
    """How a sum over windows is written.

    Attributes:
        width: neighbouring results of a tile.
    """

    rule = "Windows"
    width: int


@dataclass(frozen=True)
class Windows(Rule[WindowsPlan]):
    """Tiles of neighbouring results, each a vector of channels."""

    configuration: WindowsConfiguration | None = None

    def plan(self, kernel: Kernel) -> WindowsPlan:
        """A sum over small windows, and maps of its result."""
        return plan_windows(kernel)

    def configurations(self, plan: WindowsPlan) -> list[WindowsConfiguration]:
        """Tiles of all widths, those that are nearly as wide as the default first."""
        extent = plan.anchor.extents[plan.column]
        default = _tile_width(extent)
        most = min(_MOST_RESULTS, extent) if isinstance(extent, int) else _MOST_RESULTS
        widths = sorted(range(1, max(1, most) + 1), key=lambda w: abs(w - default))
        return [WindowsConfiguration(width) for width in widths]

    def write(self, plan: WindowsPlan) -> None:
        made = self.configuration
        extent = plan.anchor.extents[plan.column]
        width = _tile_width(extent) if made is None else made.width
        _WindowLoops(plan, self.unit.bits, width).emit()


class _WindowLoops:
    """Writes the loops of one sum over windows."""

    def __init__(self, plan: WindowsPlan, vector_bits: int, width: int) -> None:
        self.plan = plan
        self.extents = plan.anchor.extents
        element = plan.anchor.outputs[0].buffer.type.element_type
        widths = [a.buffer.type.element_type.width for a in plan.anchor.accesses]
        self.element = element
        self.lanes = vector_bits // max([32, *widths])
        self.epilogue = Epilogue(plan.anchor, plan.maps, (plan.channel,), self.lanes)
        self.column = Axis(plan.column, self.extents[plan.column])
        self.width = width

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
        self.inputs = [_Input.of(a, self.plan.padding) for a in self.plan.anchor.inputs]
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
        """The results along a row; tiles that see an end of it are written out."""
        where = unflatten(row, [self.extents[axis] for axis in self.plan.outer])
        at = {**dict(zip(self.plan.outer, where, strict=True)), **channel}
        number, width, extent = self.column.number, self.width, self.column.extent

        def tile(first: Extent, count: int) -> tuple[()]:
            self._emit_tile({**at, number: first}, count, mask)
            return ()

        if not isinstance(extent, int):
            begin: Extent = 0
            while width:
                full = subtract(extent, rem(subtract(extent, begin), width))
                for_loop(begin, full, width, partial(tile, count=width))
                begin, width = full, width // 2
            return ()
        tiles = [
            (first, min(width, extent - first)) for first in range(0, extent, width)
        ]
        inside = [t for t in tiles if t[1] == width and not self._sees_end(*t)]
        begin, end = (
            (inside[0][0], inside[-1][0] + width) if inside else (extent, extent)
        )
        for first, count in tiles:
            if first == begin:
                for_loop(begin, end, width, partial(tile, count=width))
            elif not begin < first < end:
                tile(first, count)
        return ()

    def _sees_end(self, first: int, count: int) -> bool:
        """Whether windows of neighbouring results reach out of a padded picture's row."""
        padding = self.plan.padding
        if padding is None:
            return False
        for read in self.inputs:
            for dimension, form in enumerate(read.access.forms):
                factor = form.coefficients.get(self.plan.column, 0)
                if read.padding is None or not factor:
                    continue
                reach = sum(
                    step * (static(self.extents[axis]) - 1)
                    for axis, step in form.coefficients.items()
                    if axis in self.plan.taps
                )
                least = form.constant + factor * first
                most = least + factor * (count - 1) + reach
                if padding.may_be_outside(dimension, least, most):
                    return True
        return False

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
        counts = [range(static(self.extents[axis])) for axis in self.plan.taps]
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


@dataclass(frozen=True)
class _Input:
    """An operand: where it is read, and what it is padded with, if it is.

    Attributes:
        access: in the padded buffer; flat: in the one that is there.
    """

    access: Access
    flat: Flat
    padding: Padding | None

    @staticmethod
    def of(access: Access, padding: Padding | None) -> _Input:
        """An operand; ``padding`` counts if it is of its buffer."""
        if padding is None or access.buffer != padding.buffer:
            return _Input(access, Flat.of(access), None)
        pairs = zip(access.forms, padding.before, strict=True)
        shifted = [form.plus(Linear({}, -before)) for form, before in pairs]
        return _Input(access, Flat.of(Access(padding.source, tuple(shifted))), padding)


class _Reads:
    """What the windows of a tile read, each vector once."""

    def __init__(
        self, loops: _WindowLoops, at: Mapping[int, Extent], mask: ir.Value | None
    ) -> None:
        self._loops, self._at, self._mask = loops, at, mask
        self._starts = [i.flat.offset(at) for i in loops.inputs]
        self._found: dict[tuple[int, ...], ir.Value] = {}
        self._inside: dict[tuple[int, int], ir.Value | None] = {}

    def vector(self, number: int, result: int, tap: Sequence[int]) -> ir.Value:
        """An operand at one point of the window of a result."""
        loops, read = self._loops, self._loops.inputs[number]
        steps = {loops.plan.column: result}
        steps |= zip(loops.plan.taps, tap, strict=True)
        moved = [_moved(form, steps) for form in read.access.forms]
        key = (number, *moved)
        if key not in self._found:
            self._found[key] = self._load(number, steps, moved)
        return self._found[key]

    def _load(
        self, number: int, steps: Mapping[int, int], moved: Sequence[int]
    ) -> ir.Value:
        read = self._loops.inputs[number]
        offset = self._starts[number]
        for axis, step in steps.items():
            offset = add(offset, multiply(read.flat.step(axis), step))
        lanes, where = self._loops.lanes, [index(offset)]
        if read.flat.step(self._loops.plan.channel) == 0:
            return load(read.flat.view, where, lanes, 0, None)
        if read.padding is None:
            return load(read.flat.view, where, lanes, 1, self._mask)
        return self._load_padded(read, read.padding, where, moved)

    def _load_padded(
        self,
        read: _Input,
        padding: Padding,
        where: Sequence[ir.Value],
        moved: Sequence[int],
    ) -> ir.Value:
        lanes, element = self._loops.lanes, read.flat.view.type.element_type
        fill = broadcast(op("arith.constant", element, value=padding.fill), lanes)
        mask = self._mask
        for dimension, step in enumerate(moved):
            place = self._place(read.access.forms[dimension], step)
            if isinstance(place, int):
                if padding.may_be_outside(dimension, place, place):
                    return fill
                continue
            inside = self._is_inside(read, padding, dimension, step, place)
            if inside is not None:
                mask = (
                    inside
                    if mask is None
                    else op("arith.andi", mask.type, mask, inside)
                )
        if mask is None:
            return load(read.flat.view, where, lanes, 1, None)
        type_ = vector_type(lanes, element)
        return op("vector.maskedload", type_, read.flat.view, *where, mask, fill)

    def _place(self, form: Form, step: int) -> Extent:
        """Where in a dimension of the padded buffer a window is, ``step`` from its first."""
        place: Extent = form.constant + step
        for axis, factor in form.coefficients.items():
            if axis in self._at:
                place = add(place, multiply(self._at[axis], factor))
        return place

    def _is_inside(
        self,
        read: _Input,
        padding: Padding,
        dimension: int,
        step: int,
        place: Extent,
    ) -> ir.Value | None:
        """Whether a place is inside, in all lanes; None if it surely is."""
        key = dimension, step
        if key not in self._inside:
            plan, form = self._loops.plan, read.access.forms[dimension]
            most = form.constant + step
            for axis, factor in form.coefficients.items():
                if axis in self._at:
                    most += factor * (static(self._loops.extents[axis]) - 1)
            least = form.constant + step
            is_column = (
                plan.column in form.coefficients
            )  # its ends have tiles of their own
            is_sure = is_column or plan.channel in form.coefficients
            is_sure |= not padding.may_be_outside(dimension, least, most)
            inside = None if is_sure else padding.is_inside(dimension, place)
            self._inside[key] = (
                None if inside is None else broadcast(inside, self._loops.lanes)
            )
        return self._inside[key]


def _moved(form: Form, steps: Mapping[int, int]) -> int:
    """How far an index is moved by some steps along axes."""
    return sum(
        factor * steps.get(axis, 0) for axis, factor in form.coefficients.items()
    )


def _tile_width(extent: Extent) -> int:
    """The width that leaves the narrowest rest, of those that read little per result."""
    if not isinstance(extent, int):
        return 8
    if extent <= _MOST_RESULTS:
        return max(1, extent)
    widths = range(_MOST_RESULTS, _MOST_RESULTS // 2, -1)
    return min(widths, key=lambda w: (-(-extent // w) * (w + 2), -w))
