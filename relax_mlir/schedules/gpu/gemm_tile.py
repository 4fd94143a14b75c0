"""Tiles of the operands of a contraction, on their way from memory to a block's threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.contraction_plan import Factor
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    constant,
    div,
    if_else,
    index,
    less,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES
from relax_mlir.schedules.multiples import multiple_of

__all__ = ["Operand", "Side"]

_AT_ONCE = 8  # accesses of 16 bytes to shared memory


@dataclass(frozen=True)
class Side:
    """The axes of one side of a contraction: its rows, its columns, or its sum.

    Attributes:
        axes: outermost first.
    """

    axes: Sequence[Axis]

    @property
    def extent(self) -> Extent:
        """How many points it has."""
        return product([axis.extent for axis in self.axes])

    def points(self, number: Extent) -> dict[int, Extent]:
        """The axes of a point, from its number."""
        where = unflatten(index(number), [axis.extent for axis in self.axes])
        return {axis.number: at for axis, at in zip(self.axes, where, strict=True)}

    def walks_in(self, flat: Flat, count: int) -> bool:
        """Whether runs of ``count`` points lie side by side in an operand."""
        last = self.axes[-1]
        step, extent = flat.step(last.number), last.extent
        is_whole = isinstance(extent, int) and extent % count == 0
        return isinstance(step, int) and step == 1 and is_whole


@dataclass(frozen=True)
class Operand:
    """One operand of a contraction, read in tiles of ``size`` points by ``depth`` of the sum.

    Attributes:
        factor: how it is read.
        flat: where its elements lie.
        side: its rows or columns; summed: the sum.
        size, depth: of a tile.
        element: the type that its elements get.
        threads: of a block.
    """

    factor: Factor
    flat: Flat
    side: Side
    summed: Side
    size: int
    depth: int
    element: ir.Type
    threads: int

    @property
    def run(self) -> int:
        """Neighbours that a thread reads at once."""
        most = 8 * ACCESS_BYTES // self.factor.element.width
        for count in (8, 4, 2):
            pieces = self.size * self.depth // count
            is_even = pieces % self.threads == 0 and self.depth % count == 0
            is_even = is_even and count <= most
            if is_even and (self._is_along_sum(count) or self._is_along_side(count)):
                return count
        return 1

    def _is_along_sum(self, count: int) -> bool:
        return self._may_run(self.summed) and self.summed.walks_in(self.flat, count)

    def _is_along_side(self, count: int) -> bool:
        return self._may_run(self.side) and self.side.walks_in(self.flat, count)

    def _may_run(self, side: Side) -> bool:
        """Whether neighbours are all inside of the operand, or all outside."""
        return side.axes[-1].number not in self.factor.edge_axes

    @property
    def is_along_sum(self) -> bool:
        """Whether the neighbours that a thread reads are steps of the sum."""
        if self.run > 1:
            return self._is_along_sum(self.run)
        step = self.flat.step(self.summed.axes[-1].number)
        return isinstance(step, int) and step == 1

    def places(self, thread: ir.Value) -> list[tuple[Extent, Extent]]:
        """Where in a tile the pieces of a thread begin: the point, and the step of the sum."""
        run, found = self.run, []
        pieces = self.size * self.depth // run
        for first in range(0, pieces, self.threads):
            number = add(thread, first)
            if self.is_along_sum:
                per_row = self.depth // run
                row = self._apart(div(number, per_row), per_row)
                found.append((row, multiply(rem(number, per_row), run)))
            else:
                per_step = self.size // run
                found.append(
                    (multiply(rem(number, per_step), run), div(number, per_step))
                )
        return found

    def _apart(self, row: Extent, per_row: int) -> Extent:
        """Another order of rows: those that eight threads write to shared memory at once.

        Rows there have one access of 16 bytes behind them. So many rows apart as a row has
        accesses, they begin at other banks than those that are written too.
        """
        is_whole = self.run * self.element.width == 8 * ACCESS_BYTES
        if per_row >= _AT_ONCE or self.size % _AT_ONCE or not is_whole:
            return row
        rows, inside = _AT_ONCE // per_row, rem(row, _AT_ONCE)
        turned = add(multiply(rem(inside, rows), per_row), div(inside, rows))
        return add(multiply(div(row, _AT_ONCE), _AT_ONCE), turned)

    def read(
        self,
        outer: Mapping[int, Extent],
        first: Extent,
        step: Extent,
        thread: ir.Value,
    ) -> list[ir.Value]:
        """The pieces of a thread, of the tile from a point and a step on; 0 outside.

        Args:
            outer: the point of the axes of separate products.
            first: the first point; step: the first step of the sum.
        """
        found = []
        for row, k in self.places(thread):
            point, at = add(first, row), add(step, k)
            found.append(self._read_piece(outer, point, at))
        return found

    def _read_piece(
        self, outer: Mapping[int, Extent], point: Extent, step: Extent
    ) -> ir.Value:
        run, element = self.run, self.factor.element
        type_ = vector_type(run, element) if run > 1 else element

        def inside() -> ir.Value:
            name = "vector.load" if run > 1 else "memref.load"
            return op(name, type_, self.flat.view, self._offset(outer, point, step))

        def outside() -> ir.Value:
            zero = constant(0, element)
            return broadcast(zero, run) if run > 1 else zero

        is_there = self._is_there(outer, point, step)
        return if_else(is_there, type_, inside, outside)

    def _where(
        self, outer: Mapping[int, Extent], point: Extent, step: Extent
    ) -> dict[int, Extent]:
        return {**outer, **self.side.points(point), **self.summed.points(step)}

    def _offset(
        self, outer: Mapping[int, Extent], point: Extent, step: Extent
    ) -> ir.Value:
        return index(self.flat.offset(self._where(outer, point, step)))

    def _is_there(
        self, outer: Mapping[int, Extent], point: Extent, step: Extent
    ) -> ir.Value:
        """Whether a place of a tile is one of the operand."""
        tests = [less(point, self.side.extent), less(step, self.summed.extent)]
        access = self.factor.access
        sizes = ir.MemRefType(access.buffer.type).shape
        where = self._where(outer, point, step)
        for dimension in sorted(self.factor.edges):
            form = access.forms[dimension]
            place: Extent = 0
            for axis, times in form.coefficients.items():
                place = add(place, multiply(where.get(axis, 0), times))
            # What is before the first wraps around to what is far beyond the last.
            tests.append(less(subtract(place, -form.constant), sizes[dimension]))
        first, *others = tests
        for test in others:
            first = op("arith.andi", ir.IntegerType.get_signless(1), first, test)
        return first

    @property
    def is_copied(self) -> bool:
        """Whether pieces go to shared memory without passing through registers.

        They must be 16 bytes that begin at multiples of 16, and stay as they are.
        """
        run, element = self.run, self.factor.element
        is_whole = run * element.width == 8 * ACCESS_BYTES and element == self.element
        side = self.summed if self.is_along_sum else self.side
        walked = side.axes[-1].number  # in runs, which begin at multiples of them
        places = [n for axis, n in self.flat.steps.items() if axis != walked]
        numbers = (*places, self.flat.constant)
        return is_whole and all(multiple_of(n) % run == 0 for n in numbers)

    def copy(
        self,
        outer: Mapping[int, Extent],
        first: Extent,
        step: Extent,
        thread: ir.Value,
        place_of: Callable[[Extent, Extent], Sequence[ir.Value]],
        memory: ir.Value,
    ) -> None:
        """Begin to copy the pieces of a thread to shared memory; 0 from outside.

        Args:
            outer, first, step: as for :meth:`read`.
            place_of: where in the memory a point and a step of the sum are.
        """
        count = ir.IntegerAttr.get(ir.IndexType.get(), self.run)
        for row, k in self.places(thread):
            point, at = add(first, row), add(step, k)
            is_there = self._is_there(outer, point, at)
            offset = self._offset(outer, point, at)
            source, elements = (
                op("arith.select", ir.IndexType.get(), is_there, index(n), index(0))
                for n in (offset, self.run)
            )
            where = place_of(row, k)
            op(
                "nvgpu.device_async_copy",
                ir.Type.parse("!nvgpu.device.async.token"),
                memory,
                *where,
                self.flat.view,
                source,
                elements,
                dstElements=count,
                bypassL1=ir.UnitAttr.get(),
                operandSegmentSizes=ir.DenseI32ArrayAttr.get([1, len(where), 1, 1, 1]),
            )

    def pieces(
        self, found: Sequence[ir.Value], thread: ir.Value
    ) -> Iterator[tuple[ir.Value, tuple[Extent, Extent]]]:
        """What :meth:`read` has found, in the elements' type, and where in the tile it is.

        That is the point, and the step of the sum.
        """
        for piece, place in zip(found, self.places(thread), strict=True):
            yield self._widened(piece), place

    def _widened(self, piece: ir.Value) -> ir.Value:
        if self.element == self.factor.element:
            return piece
        assert self.factor.extend is not None
        type_ = self.element
        if isinstance(piece.type, ir.VectorType):
            type_ = vector_type(piece.type.shape[0], type_)
        return op(self.factor.extend, type_, piece)
