"""The columns of a contraction's tile, as vectors: read in place, or packed in a panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    constant,
    for_loop,
    if_else,
    index,
    minimum,
    multiply,
    op,
    rem,
    subtract,
    vector_type,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.squares import turn
from relax_mlir.schedules.vectorize_body import load, store

__all__ = ["Columns", "Cut", "Tiling"]

_AT_MOST = 7  # of arith.cmpi's predicates: unsigned <=


@dataclass(frozen=True)
class Tiling:
    """How the columns of a contraction are cut.

    Attributes:
        plan: the contraction; lanes: of one vector.
        columns: how many there are.
        sum_axes: the axes of the sum, as they are walked; depth: steps of all.
    """

    plan: Plan
    lanes: int
    columns: Extent
    sum_axes: Sequence[Axis]
    depth: Extent

    @property
    def panel_elements(self) -> Extent:
        """Elements of a block of columns, where they are stored in such."""
        return multiply(self.depth, self.plan.block)


@dataclass(frozen=True)
class Cut:
    """One panel of columns.

    Attributes:
        panel: its number; vectors: how many it is wide.
        full: how many panels are wide that are not the last.
        lanes: of a vector; count: columns that exist.
    """

    panel: Extent
    vectors: int
    full: int
    lanes: int
    count: Extent

    def column(self, q: int) -> Extent:
        """The number of the first column of vector ``q``."""
        return add(multiply(self.panel, self.full * self.lanes), q * self.lanes)


@dataclass(frozen=True)
class _Scattered:
    """A vector of columns that may not lie side by side.

    Attributes:
        offsets: of every lane; first: of lane 0, in elements.
        is_run: whether they are neighbours after all; None if they never are.
    """

    offsets: ir.Value
    first: ir.Value
    is_run: ir.Value | None


class Columns:
    """One panel's columns.

    Args:
        tiling: how they are cut; cut: this panel.
        points: where on the outer axes.
        terms: steps of the sum that :meth:`pack_turned` puts side by side.

    Attributes:
        masks: which columns of each vector exist; None where all surely do.
    """

    def __init__(
        self,
        tiling: Tiling,
        points: Mapping[int, Extent],
        cut: Cut,
        terms: int = 1,
    ) -> None:
        self.tiling, self.plan, self.lanes = tiling, tiling.plan, tiling.lanes
        self._terms = terms
        self.cut, self.vectors = cut, cut.vectors
        self.extents = self.plan.anchor.extents
        self.outer = dict(points)
        self.masks = [self._mask(q) for q in range(cut.vectors)]
        self._flat = Flat.of(self.plan.b)
        self._panel: ir.Value | None = None
        self._begin: Extent = 0
        self._steps: Mapping[int, Extent] = self._flat.steps

    @property
    def width(self) -> int:
        """Columns of the panel."""
        return self.lanes * self.vectors

    def _mask(self, q: int) -> ir.Value | None:
        count = self.cut.count
        if isinstance(count, int) and count >= (q + 1) * self.lanes:
            return None
        type_ = vector_type(self.lanes, ir.IntegerType.get_signless(1))
        return op("vector.create_mask", type_, index(subtract(count, q * self.lanes)))

    def first_of(self, q: int) -> Extent:
        """The number of the first column of vector ``q``."""
        return self.cut.column(q)

    def step(self, axis: int) -> Extent:
        """How far :meth:`at` goes from one step along an axis of the sum to the next."""
        return self._steps.get(axis, 0)

    def at(self, offset: Extent, q: int) -> ir.Value:
        """Vector ``q`` at a step of the sum, in the type of the sum."""
        found, extend = self._stored(offset, q), self.plan.columns_of.extend
        if extend is None:
            return found
        return op(extend, vector_type(self.lanes, self.plan.element), found)

    def _stored(self, offset: Extent, q: int) -> ir.Value:
        """Vector ``q`` at a step of the sum as it is in memory."""
        if self._panel is not None:
            where = [index(add(add(self._begin, offset), q * self.lanes))]
            return load(self._panel, where, self.lanes, 1, None)
        where = [index(add(self._place(q), offset))]
        mask = None if self.plan.block else self.masks[q]
        return load(self._flat.view, where, self.lanes, 1, mask)

    @property
    def source(self) -> ir.Value:
        """The buffer of all columns, of one dimension."""
        return self._flat.view

    @property
    def element_bytes(self) -> int:
        """Of the buffer."""
        return self.plan.columns_of.element.width // 8

    def following(self, distance: int) -> Extent:
        """What lies some elements behind the first, if columns are stored in blocks."""
        return add(self._place(0), distance)

    def _place(self, q: int) -> Extent:
        """Where vector ``q`` is at the first step of the sum, if it lies side by side."""
        last = self.plan.n[-1]
        if self.plan.block:
            start = multiply(self.cut.panel, self._flat.blocks[last])
            return add(add(self._flat.offset(self.outer), start), q * self.lanes)
        return self._flat.offset({**self.outer, last: self.first_of(q)})

    # packing

    @staticmethod
    def panel_shape(tiling: Tiling, vectors: int) -> list[Extent]:
        """The shape of the memory that :meth:`pack` takes for so wide a panel."""
        return [tiling.depth, tiling.lanes * vectors]

    def pack(self, panel: ir.Value, begin: Extent = 0) -> None:
        """Copy the columns into ``panel``, one step of the sum after the other.

        Args:
            begin: where in it they begin.
        """
        vectors = range(self.vectors)
        self._begin = begin
        if self.plan.whole:
            self._pack_steps(panel, lambda at: [self._stored(at, q) for q in vectors])
        elif self.may_turn:
            self.pack_turned(panel)
        else:
            places = [self._scattered(q) for q in vectors]
            self._pack_steps(panel, lambda at: [self._gather(at, p) for p in places])
        self._read_steps(panel, begin)

    def read_packed(self, panel: ir.Value, begin: Extent) -> None:
        """Read the columns from where :meth:`pack` has copied them."""
        self._read_steps(panel, begin)

    def _read_steps(self, panel: ir.Value, begin: Extent) -> None:
        self._panel, self._begin = panel, begin
        self._steps = self._panel_steps()

    @property
    def may_turn(self) -> bool:
        """Whether what a column sums up lies side by side, rather than the columns."""
        last = self.tiling.sum_axes[-1]
        is_run = self.plan.b.stride_of(last.number) == 1
        is_long = (
            isinstance(last.extent, int)
            and last.extent >= self._terms * self.lanes // 2
            and last.extent % self._terms == 0
        )
        width = self.plan.columns_of.element.width * self._terms
        return is_run and is_long and len(self.plan.n) == 1 and width >= 32

    def pack_turned(self, panel: ir.Value) -> None:
        """Copy squares: a vector of words for each of some columns, turned in registers.

        A word is one term of the sum, or some that are to be neighbours.
        """
        *outer, last = self.tiling.sum_axes
        steps, terms = self._panel_steps(), self._terms
        lanes = terms * self.lanes  # of terms
        starts = [
            [self._flat.offset(self._column_at(q, lane)) for lane in range(self.lanes)]
            for q in range(self.vectors)
        ]
        assert isinstance(last.extent, int)
        full = last.extent - last.extent % lanes

        def square(source: Extent, target: Extent, count: int) -> tuple[()]:
            mask = None
            if count < lanes:
                type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
                mask = op("vector.create_mask", type_, index(count))
            for q, places in enumerate(starts):
                rows = [
                    load(self._flat.view, [index(add(p, source))], lanes, 1, mask)
                    for p in places
                ]
                words = turn([self._as_words(row) for row in rows])
                for k, word in enumerate(words[: count // terms]):
                    offset = multiply(steps[last.number], k * terms)
                    where = add(add(target, offset), q * lanes)
                    value = word
                    if terms > 1:
                        value = op("vector.bitcast", rows[0].type, word)
                    store(value, panel, [index(where)], lanes, None)
            return ()

        def run(source: Extent, target: Extent) -> None:
            def whole(k: ir.Value) -> tuple[()]:
                there = add(target, multiply(k, steps[last.number]))
                return square(add(source, k), there, lanes)

            for_loop(0, full, lanes, whole)
            if full < last.extent:
                there = add(target, multiply(steps[last.number], full))
                square(add(source, full), there, last.extent - full)

        self._for_steps(outer, run)

    def _as_words(self, row: ir.Value) -> ir.Value:
        """Terms of a row, some as one integer."""
        if self._terms == 1:
            return row
        bits = self._terms * self.plan.columns_of.element.width
        word = ir.IntegerType.get_signless(bits)
        return op("vector.bitcast", vector_type(self.lanes, word), row)

    def _column_at(self, q: int, lane: int) -> dict[int, Extent]:
        """The point of a column; of the last one for those that do not exist."""
        column = add(self.first_of(q), lane)
        if self.masks[q] is not None:
            column = minimum(column, subtract(self.tiling.columns, 1))
        return {**self.outer, self.plan.n[-1]: column}

    def _panel_steps(self) -> dict[int, Extent]:
        steps: dict[int, Extent] = {}
        step: Extent = self.width
        for axis in reversed(self.tiling.sum_axes):
            steps[axis.number] = step
            step = multiply(step, axis.extent)
        return steps

    def _pack_steps(
        self, panel: ir.Value, read: Callable[[Extent], list[ir.Value]]
    ) -> None:
        """Copy one step after the other; ``read`` gives its vectors from an offset."""

        def step(source: Extent, target: Extent) -> None:
            for q, value in enumerate(read(source)):
                where = [index(add(target, q * self.lanes))]
                store(value, panel, where, self.lanes, None)

        self._for_steps(self.tiling.sum_axes, step)

    def _for_steps(
        self, axes: Sequence[Axis], body: Callable[[Extent, Extent], None]
    ) -> None:
        """Loops over axes of the sum; ``body`` gets offsets in the buffer and the panel."""
        steps = self._panel_steps()

        def nest(axes: Sequence[Axis], source: Extent, target: Extent) -> tuple[()]:
            if not axes:
                body(source, target)
                return ()
            axis, *inner = axes

            def at(k: ir.Value) -> tuple[()]:
                here = add(source, multiply(k, self.step(axis.number)))
                there = add(target, multiply(k, steps[axis.number]))
                return nest(inner, here, there)

            for_loop(0, axis.extent, 1, at)
            return ()

        nest(axes, 0, self._begin)

    def _scattered(self, q: int) -> _Scattered:
        """Where the columns of vector ``q`` lie, when they are not side by side."""
        first = self.first_of(q)
        type_ = vector_type(self.lanes, ir.IndexType.get())
        base, steps = broadcast(index(first), self.lanes), op("vector.step", type_)
        columns = op("arith.addi", type_, base, steps)
        # Columns that do not exist read the last one.
        top = broadcast(index(subtract(self.tiling.columns, 1)), self.lanes)
        offsets = self._offsets(op("arith.minui", type_, columns, top))
        lane = ir.DenseI64ArrayAttr.get([0])
        start = op("vector.extract", ir.IndexType.get(), offsets, static_position=lane)
        return _Scattered(offsets, start, self._is_run(first))

    def _offsets(self, columns: ir.Value) -> ir.Value:
        """How far columns lie from the first of all, in elements."""
        type_ = columns.type
        total = broadcast(index(0), self.lanes)
        for axis in reversed(self.plan.n):
            extent = broadcast(index(self.extents[axis]), self.lanes)
            point = op("arith.remui", type_, columns, extent)
            columns = op("arith.divui", type_, columns, extent)
            step = broadcast(index(self._flat.step(axis)), self.lanes)
            far = op("arith.muli", type_, point, step)
            total = op("arith.addi", type_, total, far)
        return total

    def _is_run(self, first: Extent) -> ir.Value | None:
        """Whether a vector's columns are neighbours in memory after all: in one row."""
        last = self.plan.n[-1]
        if self.plan.b.stride_of(last) != 1:
            return None
        row = self.extents[last]
        fits = _at_most(add(rem(index(first), row), self.lanes), row)
        exists = _at_most(add(first, self.lanes), self.tiling.columns)
        return op("arith.andi", fits.type, fits, exists)

    def _gather(self, offset: Extent, vector: _Scattered) -> ir.Value:
        flat, element = self._flat.view, self.plan.columns_of.element
        base = add(self._flat.offset(self.outer), offset)
        type_ = vector_type(self.lanes, element)

        def gather() -> ir.Value:
            mask = broadcast(constant(1, ir.IntegerType.get_signless(1)), self.lanes)
            zero = broadcast(constant(0, element), self.lanes)
            return op(
                "vector.gather", type_, flat, index(base), vector.offsets, mask, zero
            )

        if vector.is_run is None:
            return gather()
        start = add(base, vector.first)
        return if_else(
            vector.is_run,
            type_,
            lambda: op("vector.load", type_, flat, index(start)),
            gather,
        )


def _at_most(lhs: Extent, rhs: Extent) -> ir.Value:
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    predicate = ir.IntegerAttr.get(i64, _AT_MOST)
    return op("arith.cmpi", i1, index(lhs), index(rhs), predicate=predicate)
