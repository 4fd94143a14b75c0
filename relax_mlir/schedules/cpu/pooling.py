"""Pooling rule: poolings and depthwise convolutions in NHWC.

Vectors hold channels. A register tile is a few adjacent results along a row; inputs shared
by their overlapping windows are loaded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product as all_points

from mlir import ir

from relax_mlir.analysis.index_maps import IndexForm
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    affine_value,
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
    static_size,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.cpu.match_pooling import PoolingPlan, plan_pooling
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.kernel_view import Access, Kernel, point_count
from relax_mlir.schedules.padding import Padding
from relax_mlir.schedules.rule import (
    CpuRule,
)
from relax_mlir.schedules.vectorize_body import BodyVectorizer, load_vector
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["Pooling", "PoolingConfiguration"]

_MAX_RESULTS = 14  # per register tile
_TILE_WORK = 1 << 17  # taps per thread that pay for starting it
_TILES = 16  # parallel tiles that keep threads busy


@dataclass(frozen=True)
class PoolingConfiguration(Configuration):
    """Tunable parameters of a pooling.

    Attributes:
        width: adjacent results per register tile.
    """

    rule = "Pooling"
    width: int


@dataclass(frozen=True)
class Pooling(CpuRule[PoolingPlan]):
    """Register tiles of adjacent results, each a vector of channels."""

    configuration: PoolingConfiguration | None = None

    def plan(self, kernel: Kernel) -> PoolingPlan:
        """Match a reduction over small windows with an epilogue."""
        return plan_pooling(kernel)

    def configurations(self, plan: PoolingPlan) -> list[PoolingConfiguration]:
        """All tile widths, by their distance from the default."""
        extent = plan.anchor.extents[plan.column]
        default = _tile_width(extent)
        most = min(_MAX_RESULTS, extent) if isinstance(extent, int) else _MAX_RESULTS
        widths = sorted(range(1, max(1, most) + 1), key=lambda w: abs(w - default))
        return [PoolingConfiguration(width) for width in widths]

    def write(self, plan: PoolingPlan) -> None:
        chosen = self.configuration
        extent = plan.anchor.extents[plan.column]
        width = _tile_width(extent) if chosen is None else chosen.width
        _PoolingLoops(plan, self.unit.vector_bits, width).emit()


class _PoolingLoops:
    """Emits the loops of one pooling.

    Args:
        plan: the pooling; vector_bits: width of a vector register.
        width: adjacent results per register tile.
    """

    def __init__(self, plan: PoolingPlan, vector_bits: int, width: int) -> None:
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
        """Emit the loops at the insertion point."""
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

    def _emit_rows(self, begin: IndexLike, end: IndexLike) -> None:
        """Emit a range of result rows; the loop over channel vectors is the outer one."""
        self.inputs = [
            _PoolingOperand.of(a, self.plan.padding) for a in self.plan.anchor.inputs
        ]
        channels, lanes = self.extents[self.plan.channel], self.lanes
        full = subtract(channels, rem(channels, lanes))

        def vector(channel: IndexLike, mask: ir.Value | None) -> tuple[()]:
            at = {self.plan.channel: channel}
            for_loop(begin, end, 1, lambda row: self._emit_row(row, at, mask))
            return ()

        for_loop(0, full, lanes, lambda channel: vector(channel, None))
        tail = rem(channels, lanes)
        if tail == 0:
            return
        type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
        mask = op("vector.create_mask", type_, index(tail))
        for_loop(0, minimum(tail, 1), 1, lambda _: vector(full, mask))

    def _emit_row(
        self, row: ir.Value, channel: Mapping[int, IndexLike], mask: ir.Value | None
    ) -> tuple[()]:
        """Emit a row of results; tiles that touch padding at its ends are peeled."""
        indices = unflatten(row, [self.extents[axis] for axis in self.plan.outer])
        at = {**dict(zip(self.plan.outer, indices, strict=True)), **channel}
        number, width, extent = self.column.number, self.width, self.column.extent

        def tile(first: IndexLike, count: int) -> tuple[()]:
            self._emit_tile({**at, number: first}, count, mask)
            return ()

        if not isinstance(extent, int):
            begin: IndexLike = 0
            while width:
                full = subtract(extent, rem(subtract(extent, begin), width))
                for_loop(begin, full, width, partial(tile, count=width))
                begin, width = full, width // 2
            return ()
        tiles = [
            (first, min(width, extent - first)) for first in range(0, extent, width)
        ]
        inside = [t for t in tiles if t[1] == width and not self._touches_padding(*t)]
        begin, end = (
            (inside[0][0], inside[-1][0] + width) if inside else (extent, extent)
        )
        for first, count in tiles:
            if first == begin:
                for_loop(begin, end, width, partial(tile, count=width))
            elif not begin < first < end:
                tile(first, count)
        return ()

    def _touches_padding(self, first: int, count: int) -> bool:
        """Whether windows of adjacent results reach into the padding of a row."""
        padding = self.plan.padding
        if padding is None:
            return False
        for operand in self.inputs:
            for dimension, form in enumerate(operand.access.forms):
                stride = form.coefficients.get(self.plan.column, 0)
                if operand.padding is None or not stride:
                    continue
                reach = sum(
                    step * (static_size(self.extents[axis]) - 1)
                    for axis, step in form.coefficients.items()
                    if axis in self.plan.taps
                )
                least = form.constant + stride * first
                most = least + stride * (count - 1) + reach
                if padding.may_be_outside(dimension, least, most):
                    return True
        return False

    def _emit_tile(
        self, at: Mapping[int, IndexLike], width: int, mask: ir.Value | None
    ) -> None:
        """Emit a register tile of ``width`` adjacent results with its epilogue."""
        statement = self.plan.anchor
        loads = _LoadCache(self, at, mask)
        start = op("arith.constant", self.element, value=statement.start)
        sums = [broadcast(start, self.lanes)] * width
        arguments: list[ir.Value] = list(statement.body.arguments)
        *inputs, total = arguments
        counts = [range(static_size(self.extents[axis])) for axis in self.plan.taps]
        for tap in all_points(*counts):
            for i in range(width):
                values = {
                    argument: loads.vector(number, i, tap)
                    for number, argument in enumerate(inputs)
                    if number < len(self.inputs)
                }
                values[total] = sums[i]
                cloner = BodyVectorizer(statement.body, [], None, self.lanes)
                (sums[i],) = cloner.run(values)
        for i, value in enumerate(sums):
            column = add(at[self.column.number], i)
            self.epilogue.store(value, {**at, self.column.number: column}, mask)


@dataclass(frozen=True)
class _PoolingOperand:
    """An operand with its implicit padding, if any.

    Attributes:
        access: to the padded buffer; flat: to the source of the padding.
    """

    access: Access
    flat: FlatAccess
    padding: Padding | None

    @staticmethod
    def of(access: Access, padding: Padding | None) -> _PoolingOperand:
        """Make an operand; ``padding`` applies if it belongs to its buffer."""
        if padding is None or access.buffer != padding.buffer:
            return _PoolingOperand(access, FlatAccess.of(access), None)
        pairs = zip(access.forms, padding.before, strict=True)
        shifted = [form.shifted(-before) for form, before in pairs]
        return _PoolingOperand(
            access, FlatAccess.of(Access(padding.source, tuple(shifted))), padding
        )


class _LoadCache:
    """Loads of the windows of a register tile, each vector once."""

    def __init__(
        self, loops: _PoolingLoops, at: Mapping[int, IndexLike], mask: ir.Value | None
    ) -> None:
        self._loops, self._at, self._mask = loops, at, mask
        self._starts = [i.flat.offset(at) for i in loops.inputs]
        self._vectors: dict[tuple[int, ...], ir.Value] = {}
        self._inside: dict[tuple[int, int], ir.Value | None] = {}

    def vector(self, number: int, result: int, tap: Sequence[int]) -> ir.Value:
        """Operand ``number`` at one tap of the window of a result of the tile."""
        loops, operand = self._loops, self._loops.inputs[number]
        steps = {loops.plan.column: result}
        steps |= zip(loops.plan.taps, tap, strict=True)
        offsets = [_index_offset(form, steps) for form in operand.access.forms]
        key = (number, *offsets)
        if key not in self._vectors:
            self._vectors[key] = self._load(number, steps, offsets)
        return self._vectors[key]

    def _load(
        self, number: int, steps: Mapping[int, int], offsets: Sequence[int]
    ) -> ir.Value:
        operand = self._loops.inputs[number]
        offset = self._starts[number]
        for axis, step in steps.items():
            offset = add(offset, multiply(operand.flat.step(axis), step))
        lanes, indices = self._loops.lanes, [index(offset)]
        if operand.flat.step(self._loops.plan.channel) == 0:
            return load_vector(operand.flat.view, indices, lanes, 0, None)
        if operand.padding is None:
            return load_vector(operand.flat.view, indices, lanes, 1, self._mask)
        return self._load_padded(operand, operand.padding, indices, offsets)

    def _load_padded(
        self,
        operand: _PoolingOperand,
        padding: Padding,
        indices: Sequence[ir.Value],
        offsets: Sequence[int],
    ) -> ir.Value:
        """Load with lanes in the padding masked off, which take the fill value."""
        lanes, element = self._loops.lanes, operand.flat.view.type.element_type
        fill = broadcast(op("arith.constant", element, value=padding.fill), lanes)
        mask = self._mask
        for dimension, offset in enumerate(offsets):
            position = self._position(operand.access.forms[dimension], offset)
            if isinstance(position, int):
                if padding.may_be_outside(dimension, position, position):
                    return fill
                continue
            inside = self._is_inside(operand, padding, dimension, offset, position)
            if inside is not None:
                mask = (
                    inside
                    if mask is None
                    else op("arith.andi", mask.type, mask, inside)
                )
        if mask is None:
            return load_vector(operand.flat.view, indices, lanes, 1, None)
        type_ = vector_type(lanes, element)
        return op("vector.maskedload", type_, operand.flat.view, *indices, mask, fill)

    def _position(self, form: IndexForm, offset: int) -> IndexLike:
        """Index in a dimension of the padded buffer, ``offset`` from the tile's first."""
        return affine_value(
            AffineForm(form.coefficients, form.constant + offset),
            lambda axis: self._at.get(axis, 0),
        )

    def _is_inside(
        self,
        operand: _PoolingOperand,
        padding: Padding,
        dimension: int,
        offset: int,
        position: IndexLike,
    ) -> ir.Value | None:
        """Mask of whether an index is inside the source; None if it statically is."""
        key = dimension, offset
        if key not in self._inside:
            plan, form = self._loops.plan, operand.access.forms[dimension]
            most = form.constant + offset
            for axis, coefficient in form.coefficients.items():
                if axis in self._at:
                    most += coefficient * (static_size(self._loops.extents[axis]) - 1)
            least = form.constant + offset
            # Tiles at the ends of a row have static columns.
            is_static = plan.column in form.coefficients
            is_static |= plan.channel in form.coefficients
            is_static |= not padding.may_be_outside(dimension, least, most)
            inside = None if is_static else padding.is_inside(dimension, position)
            self._inside[key] = (
                None if inside is None else broadcast(inside, self._loops.lanes)
            )
        return self._inside[key]


def _index_offset(form: IndexForm, steps: Mapping[int, int]) -> int:
    """Change of an index by given steps along axes."""
    return sum(
        coefficient * steps.get(axis, 0)
        for axis, coefficient in form.coefficients.items()
    )


def _tile_width(extent: IndexLike) -> int:
    """The tile width with the fewest loads per row, including the tail tile."""
    if not isinstance(extent, int):
        return 8
    if extent <= _MAX_RESULTS:
        return max(1, extent)
    widths = range(_MAX_RESULTS, _MAX_RESULTS // 2, -1)
    return min(widths, key=lambda w: (-(-extent // w) * (w + 2), -w))
