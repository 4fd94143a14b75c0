"""The columns of a contraction's tile, as vectors: read in place, or packed in a panel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.indexing import buffer_sizes
from relax_mlir.schedules.cpu.contraction_plan import Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    constant,
    for_loop,
    if_else,
    index,
    multiply,
    op,
    product,
    reinterpret,
    rem,
    row_major_strides,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.vectorize_body import load, store

__all__ = ["Columns", "Tiling"]

_AT_MOST = 7  # of arith.cmpi's predicates: unsigned <=


@dataclass(frozen=True)
class Tiling:
    """How the columns of a contraction are cut.

    Attributes:
        plan: the contraction; lanes: of one vector.
        vectors: how many of them a tile is wide.
        columns: how many there are; depth: steps of the sum.
    """

    plan: Plan
    lanes: int
    vectors: int
    columns: Extent
    depth: Extent

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors


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
    """One tile's columns, from ``first`` on.

    Args:
        tiling: how wide it is.
        points: an index per axis, of which those of the outer axes count.
        first: the number of its first column.

    Attributes:
        masks: which columns of each vector exist; None where all surely do.
    """

    def __init__(self, tiling: Tiling, points: Sequence[Extent], first: Extent) -> None:
        self.tiling, self.plan, self.lanes = tiling, tiling.plan, tiling.lanes
        self.extents = self.plan.anchor.extents
        self.points = list(points)
        self.first = first
        self.masks = self._masks()
        self.panel: ir.Value | None = None

    def _masks(self) -> list[ir.Value | None]:
        columns, vectors = self.tiling.columns, self.tiling.vectors
        if isinstance(columns, int) and columns % self.tiling.width == 0:
            return [None] * vectors
        type_ = vector_type(self.lanes, ir.IntegerType.get_signless(1))
        left = subtract(columns, self.first)
        return [
            op("vector.create_mask", type_, index(subtract(left, q * self.lanes)))
            for q in range(vectors)
        ]

    def points_of(self, q: int) -> list[Extent]:
        """An index per axis, at the first column of vector ``q``."""
        # The last axis counts through the whole group.
        *leading, last = self.plan.n
        points = list(self.points)
        for axis in leading:
            points[axis] = 0
        points[last] = add(self.first, q * self.lanes)
        return points

    def at(self, k: ir.Value, q: int) -> ir.Value:
        """Vector ``q`` at step ``k`` of the sum, in the type of the sum."""
        found, extend = self._stored(k, q), self.plan.columns_of.extend
        if extend is None:
            return found
        return op(extend, vector_type(self.lanes, self.plan.element), found)

    def _stored(self, k: ir.Value, q: int) -> ir.Value:
        """Vector ``q`` at step ``k`` of the sum as it is in memory."""
        if self.panel is not None:
            where = [k, index(q * self.lanes)]
            return load(self.panel, where, self.lanes, 1, None)
        steps = unflatten(k, [self.extents[axis] for axis in self.plan.k])
        for axis, point in zip(self.plan.k, steps, strict=True):
            self.points[axis] = point
        return self._read(q)

    def _read(self, q: int) -> ir.Value:
        b = self.plan.b
        where = b.indices(self.points_of(q))
        return load(b.buffer, where, self.lanes, 1, self.masks[q])

    # packing

    def pack(self) -> None:
        """Copy the columns: step ``k`` of the sum reads ``panel[k, :]``."""
        vectors = range(self.tiling.vectors)
        element = self.plan.columns_of.element
        self.panel = alloc([self.tiling.depth, self.tiling.width], element)
        if self.plan.whole:
            self._pack_nest(self.plan.k, 0, lambda: [self._read(q) for q in vectors])
            return
        flat = _flat_view(self.plan.b.buffer)
        places = [self._scattered(q) for q in vectors]
        self._pack_nest(self.plan.k, 0, lambda: [self._gather(flat, p) for p in places])

    def _pack_nest(
        self, axes: Sequence[int], row: Extent, read: Callable[[], list[ir.Value]]
    ) -> None:
        """Loop over the reduce axes; ``row`` counts the steps of the sum."""
        if not axes:
            for q, value in enumerate(read()):
                where = [index(row), index(q * self.lanes)]
                store(value, self.panel, where, self.lanes, None)
            return
        axis, *inner = axes

        def body(i: ir.Value) -> tuple[()]:
            self.points[axis] = i
            self._pack_nest(inner, add(multiply(row, self.extents[axis]), i), read)
            return ()

        for_loop(0, self.extents[axis], 1, body)

    def _scattered(self, q: int) -> _Scattered:
        """Where the columns of vector ``q`` lie, when they are not side by side."""
        first = add(self.first, q * self.lanes)
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
        strides = row_major_strides(_sizes(self.plan.b.buffer))
        total = broadcast(index(0), self.lanes)
        for axis in reversed(self.plan.n):
            extent = broadcast(index(self.extents[axis]), self.lanes)
            point = op("arith.remui", type_, columns, extent)
            columns = op("arith.divui", type_, columns, extent)
            for form, stride in zip(self.plan.b.forms, strides, strict=True):
                factor = form.coefficients.get(axis, 0)
                if factor:
                    step = broadcast(index(multiply(stride, factor)), self.lanes)
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

    def _gather(self, flat: ir.Value, vector: _Scattered) -> ir.Value:
        base, element = self._step_offset(), self.plan.columns_of.element
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

    def _step_offset(self) -> Extent:
        """Where column 0 of the present step of the sum lies, in elements."""
        points = list(self.points)
        for axis in self.plan.n:
            points[axis] = 0
        base: Extent = 0
        strides = row_major_strides(_sizes(self.plan.b.buffer))
        for form, stride in zip(self.plan.b.forms, strides, strict=True):
            place: Extent = form.constant
            for axis, factor in form.coefficients.items():
                place = add(place, multiply(points[axis], factor))
            base = add(base, multiply(place, stride))
        return base


def _at_most(lhs: Extent, rhs: Extent) -> ir.Value:
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    predicate = ir.IntegerAttr.get(i64, _AT_MOST)
    return op("arith.cmpi", i1, index(lhs), index(rhs), predicate=predicate)


def _sizes(buffer: ir.Value) -> list[Extent]:
    known = buffer_sizes(buffer)
    return [
        size
        if size is not None
        else op("memref.dim", ir.IndexType.get(), buffer, index(i))
        for i, size in enumerate(known)
    ]


def _flat_view(buffer: ir.Value) -> ir.Value:
    """A row-major buffer as one dimension."""
    total = product(_sizes(buffer))
    dynamic = ir.ShapedType.get_dynamic_size()
    size = total if isinstance(total, int) else dynamic
    type_ = ir.MemRefType.get([size], buffer.type.element_type)
    return reinterpret(buffer, type_, [total])
