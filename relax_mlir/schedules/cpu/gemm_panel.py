"""RHS panels of a GEMM: packing, im2col, and vector loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
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
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.lane_transpose import transpose_lanes
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.vectorize_body import load_vector, store_vector

__all__ = ["Panel", "PanelSlice", "PanelTiling"]

_AT_MOST = 7  # arith.cmpi predicate: ule


@dataclass(frozen=True)
class PanelTiling:
    """Tiling of a GEMM's RHS into panels.

    Attributes:
        plan: the contraction; lanes: per vector.
        columns: size of N.
        k_axes: merged axes of K, in loop order; depth: size of K.
    """

    plan: ContractionPlan
    lanes: int
    columns: IndexLike
    k_axes: Sequence[Axis]
    depth: IndexLike

    @property
    def panel_elements(self) -> IndexLike:
        """Elements of a prepacked panel."""
        return multiply(self.depth, self.plan.panel_width)


@dataclass(frozen=True)
class PanelSlice:
    """Position and width of one panel.

    Attributes:
        number: of the panel; vectors: its width.
        full: width of all panels but the last, in vectors.
        lanes: per vector; count: valid columns.
    """

    number: IndexLike
    vectors: int
    full: int
    lanes: int
    count: IndexLike

    def first_column(self, q: int) -> IndexLike:
        """First column of vector ``q``."""
        return add(multiply(self.number, self.full * self.lanes), q * self.lanes)


@dataclass(frozen=True)
class _GatheredColumns:
    """A vector of columns that are gathered.

    Attributes:
        offsets: of all lanes; first: of lane 0, in elements.
        is_contiguous: run-time check for contiguous lanes; None if they never are.
    """

    offsets: ir.Value
    first: ir.Value
    is_contiguous: ir.Value | None


class Panel:
    """One panel of the RHS, read in place or after packing.

    Args:
        tiling: of the RHS; panel_slice: this panel.
        points: the point along the batch axes.
        vnni_factor: consecutive k that :meth:`pack_transposed` interleaves.

    Attributes:
        masks: valid columns of each vector; None for full vectors.
    """

    def __init__(
        self,
        tiling: PanelTiling,
        points: Mapping[int, IndexLike],
        panel_slice: PanelSlice,
        vnni_factor: int = 1,
    ) -> None:
        self.tiling, self.plan, self.lanes = tiling, tiling.plan, tiling.lanes
        self._vnni_factor = vnni_factor
        self.panel_slice, self.vectors = panel_slice, panel_slice.vectors
        self.extents = self.plan.anchor.extents
        self.outer = dict(points)
        self.masks = [self._mask(q) for q in range(panel_slice.vectors)]
        self._flat = FlatAccess.of(self.plan.b)
        self._packed: ir.Value | None = None
        self._begin: IndexLike = 0
        self._k_strides: Mapping[int, IndexLike] = self._flat.steps

    @property
    def width(self) -> int:
        """Width of the panel in columns."""
        return self.lanes * self.vectors

    def _mask(self, q: int) -> ir.Value | None:
        count = self.panel_slice.count
        if isinstance(count, int) and count >= (q + 1) * self.lanes:
            return None
        type_ = vector_type(self.lanes, ir.IntegerType.get_signless(1))
        return op("vector.create_mask", type_, index(subtract(count, q * self.lanes)))

    def first_column(self, q: int) -> IndexLike:
        """First column of vector ``q``."""
        return self.panel_slice.first_column(q)

    def k_stride(self, axis: int) -> IndexLike:
        """Stride of an axis of K in the offset that :meth:`vector_at` takes."""
        return self._k_strides.get(axis, 0)

    def vector_at(self, offset: IndexLike, q: int) -> ir.Value:
        """Load vector ``q`` at an offset along K, extended to the accumulator type."""
        vector, extend = self._load_vector(offset, q), self.plan.rhs.extend
        if extend is None:
            return vector
        return op(extend, vector_type(self.lanes, self.plan.element), vector)

    def _load_vector(self, offset: IndexLike, q: int) -> ir.Value:
        """Load vector ``q`` at an offset along K, in the type in memory."""
        if self._packed is not None:
            indices = [index(add(add(self._begin, offset), q * self.lanes))]
            return load_vector(self._packed, indices, self.lanes, 1, None)
        indices = [index(add(self._vector_offset(q), offset))]
        mask = None if self.plan.panel_width else self.masks[q]
        return load_vector(self._flat.view, indices, self.lanes, 1, mask)

    @property
    def buffer(self) -> ir.Value:
        """Flat view of the whole RHS."""
        return self._flat.view

    @property
    def element_bytes(self) -> int:
        """Size of an RHS element in bytes."""
        return self.plan.rhs.element.width // 8

    def offset_ahead(self, distance: int) -> IndexLike:
        """Offset ``distance`` elements after the start of a prepacked panel."""
        return add(self._vector_offset(0), distance)

    def _vector_offset(self, q: int) -> IndexLike:
        """Offset of contiguous vector ``q`` at the first k."""
        last = self.plan.n[-1]
        if self.plan.panel_width:
            start = multiply(self.panel_slice.number, self._flat.blocks[last])
            return add(add(self._flat.offset(self.outer), start), q * self.lanes)
        return self._flat.offset({**self.outer, last: self.first_column(q)})

    # packing

    @staticmethod
    def panel_shape(tiling: PanelTiling, vectors: int) -> list[IndexLike]:
        """Shape of the scratch for :meth:`pack`, for panels of a given width."""
        return [tiling.depth, tiling.lanes * vectors]

    def pack(self, packed: ir.Value, begin: IndexLike = 0) -> None:
        """Copy the panel to scratch in K-major order, and read it from there afterwards.

        Args:
            packed: the scratch, of one dimension; begin: offset of the panel in it.
        """
        vectors = range(self.vectors)
        self._begin = begin
        if self.plan.is_rhs_contiguous:
            self._pack_by_k(
                packed, lambda at: [self._load_vector(at, q) for q in vectors]
            )
        elif self.is_k_contiguous:
            self.pack_transposed(packed)
        else:
            gathered = [self._gathered_columns(q) for q in vectors]
            self._pack_by_k(
                packed, lambda at: [self._gather(at, vector) for vector in gathered]
            )
        self._read_from(packed, begin)

    def read_packed(self, packed: ir.Value, begin: IndexLike) -> None:
        """Read the panel from where :meth:`pack` has copied it."""
        self._read_from(packed, begin)

    def _read_from(self, packed: ir.Value, begin: IndexLike) -> None:
        self._packed, self._begin = packed, begin
        self._k_strides = self._packed_strides()

    @property
    def is_k_contiguous(self) -> bool:
        """Whether K is contiguous in the RHS, so that packing transposes it."""
        last = self.tiling.k_axes[-1]
        has_unit_stride = self.plan.b.stride_of(last.number) == 1
        is_long = (
            isinstance(last.extent, int)
            and last.extent >= self._vnni_factor * self.lanes // 2
            and last.extent % self._vnni_factor == 0
        )
        width = self.plan.rhs.element.width * self._vnni_factor
        return has_unit_stride and is_long and len(self.plan.n) == 1 and width >= 32

    def pack_transposed(self, packed: ir.Value) -> None:
        """Pack with in-register transposes of lanes x lanes tiles of words.

        A word is one element, or the consecutive k of the VNNI layout.
        """
        *outer, last = self.tiling.k_axes
        strides, factor = self._packed_strides(), self._vnni_factor
        lanes = factor * self.lanes  # elements
        starts = [
            [
                self._flat.offset(self._column_point(q, lane))
                for lane in range(self.lanes)
            ]
            for q in range(self.vectors)
        ]
        assert isinstance(last.extent, int)
        full = last.extent - last.extent % lanes

        def square(source: IndexLike, target: IndexLike, count: int) -> tuple[()]:
            mask = None
            if count < lanes:
                type_ = vector_type(lanes, ir.IntegerType.get_signless(1))
                mask = op("vector.create_mask", type_, index(count))
            for q, offsets in enumerate(starts):
                rows = [
                    load_vector(
                        self._flat.view, [index(add(start, source))], lanes, 1, mask
                    )
                    for start in offsets
                ]
                words = transpose_lanes([self._as_words(row) for row in rows])
                for k, word in enumerate(words[: count // factor]):
                    offset = multiply(strides[last.number], k * factor)
                    position = add(add(target, offset), q * lanes)
                    value = word
                    if factor > 1:
                        value = op("vector.bitcast", rows[0].type, word)
                    store_vector(value, packed, [index(position)], lanes, None)
            return ()

        def run(source: IndexLike, target: IndexLike) -> None:
            def whole(k: ir.Value) -> tuple[()]:
                next_target = add(target, multiply(k, strides[last.number]))
                return square(add(source, k), next_target, lanes)

            for_loop(0, full, lanes, whole)
            if full < last.extent:
                next_target = add(target, multiply(strides[last.number], full))
                square(add(source, full), next_target, last.extent - full)

        self._for_k(outer, run)

    def _as_words(self, row: ir.Value) -> ir.Value:
        """Bitcast a vector to words of the VNNI layout."""
        if self._vnni_factor == 1:
            return row
        bits = self._vnni_factor * self.plan.rhs.element.width
        word = ir.IntegerType.get_signless(bits)
        return op("vector.bitcast", vector_type(self.lanes, word), row)

    def _column_point(self, q: int, lane: int) -> dict[int, IndexLike]:
        """The point of a column; invalid columns are clamped to the last one."""
        column = add(self.first_column(q), lane)
        if self.masks[q] is not None:
            column = minimum(column, subtract(self.tiling.columns, 1))
        return {**self.outer, self.plan.n[-1]: column}

    def _packed_strides(self) -> dict[int, IndexLike]:
        """Strides of the axes of K in a packed panel."""
        strides: dict[int, IndexLike] = {}
        stride: IndexLike = self.width
        for axis in reversed(self.tiling.k_axes):
            strides[axis.number] = stride
            stride = multiply(stride, axis.extent)
        return strides

    def _pack_by_k(
        self, packed: ir.Value, read: Callable[[IndexLike], list[ir.Value]]
    ) -> None:
        """Copy the panel k by k; ``read(offset)`` returns the vectors of one k."""

        def copy(source: IndexLike, target: IndexLike) -> None:
            for q, value in enumerate(read(source)):
                indices = [index(add(target, q * self.lanes))]
                store_vector(value, packed, indices, self.lanes, None)

        self._for_k(self.tiling.k_axes, copy)

    def _for_k(
        self, axes: Sequence[Axis], body: Callable[[IndexLike, IndexLike], None]
    ) -> None:
        """Loops over axes of K; ``body`` takes the offsets in the RHS and in the panel."""
        strides = self._packed_strides()

        def nest(
            axes: Sequence[Axis], source: IndexLike, target: IndexLike
        ) -> tuple[()]:
            if not axes:
                body(source, target)
                return ()
            axis, *inner = axes

            def at(k: ir.Value) -> tuple[()]:
                next_source = add(source, multiply(k, self.k_stride(axis.number)))
                next_target = add(target, multiply(k, strides[axis.number]))
                return nest(inner, next_source, next_target)

            for_loop(0, axis.extent, 1, at)
            return ()

        nest(axes, 0, self._begin)

    def _gathered_columns(self, q: int) -> _GatheredColumns:
        """Offsets of the columns of vector ``q``, for gathers (im2col)."""
        first = self.first_column(q)
        type_ = vector_type(self.lanes, ir.IndexType.get())
        base, steps = broadcast(index(first), self.lanes), op("vector.step", type_)
        columns = op("arith.addi", type_, base, steps)
        # Invalid columns are clamped to the last one.
        top = broadcast(index(subtract(self.tiling.columns, 1)), self.lanes)
        offsets = self._offsets(op("arith.minui", type_, columns, top))
        lane = ir.DenseI64ArrayAttr.get([0])
        start = op("vector.extract", ir.IndexType.get(), offsets, static_position=lane)
        return _GatheredColumns(offsets, start, self._is_contiguous(first))

    def _offsets(self, columns: ir.Value) -> ir.Value:
        """Offsets of columns from column 0, in elements."""
        type_ = columns.type
        total = broadcast(index(0), self.lanes)
        for axis in reversed(self.plan.n):
            extent = broadcast(index(self.extents[axis]), self.lanes)
            point = op("arith.remui", type_, columns, extent)
            columns = op("arith.divui", type_, columns, extent)
            step = broadcast(index(self._flat.step(axis)), self.lanes)
            offset = op("arith.muli", type_, point, step)
            total = op("arith.addi", type_, total, offset)
        return total

    def _is_contiguous(self, first: IndexLike) -> ir.Value | None:
        """Run-time check that the columns of a vector are in one row, hence contiguous."""
        last = self.plan.n[-1]
        if self.plan.b.stride_of(last) != 1:
            return None
        row = self.extents[last]
        fits = _at_most(add(rem(index(first), row), self.lanes), row)
        is_valid = _at_most(add(first, self.lanes), self.tiling.columns)
        return op("arith.andi", fits.type, fits, is_valid)

    def _gather(self, offset: IndexLike, vector: _GatheredColumns) -> ir.Value:
        """Gather a vector at an offset along K, or load it if it is contiguous."""
        flat, element = self._flat.view, self.plan.rhs.element
        base = add(self._flat.offset(self.outer), offset)
        type_ = vector_type(self.lanes, element)

        def gather() -> ir.Value:
            mask = broadcast(constant(1, ir.IntegerType.get_signless(1)), self.lanes)
            zero = broadcast(constant(0, element), self.lanes)
            return op(
                "vector.gather", type_, flat, index(base), vector.offsets, mask, zero
            )

        if vector.is_contiguous is None:
            return gather()
        start = add(base, vector.first)
        return if_else(
            vector.is_contiguous,
            type_,
            lambda: op("vector.load", type_, flat, index(start)),
            gather,
        )


def _at_most(lhs: IndexLike, rhs: IndexLike) -> ir.Value:
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    predicate = ir.IntegerAttr.get(i64, _AT_MOST)
    return op("arith.cmpi", i1, index(lhs), index(rhs), predicate=predicate)
