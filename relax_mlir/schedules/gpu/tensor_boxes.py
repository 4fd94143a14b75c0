"""Operands that the copy engine of a GPU brings to shared memory, box by box.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``: tensors of at most 5 dimensions, each of
which begins at multiples of 16 bytes, and of the elements of the next inner one; of every
dimension a box may take each second element, or each third, up to the eighth. A box whose
innermost coordinate is not a multiple of 16 bytes is an illegal instruction on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap

from mlir import ir
from mlir.dialects import nvvm

from relax_mlir.dialects.tir import marks
from relax_mlir.indexing import Linear, Part
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.contraction_plan import Factor
from relax_mlir.schedules.emit import (
    Extent,
    add,
    index,
    multiply,
    op,
    row_major_strides,
    strided_view,
)
from relax_mlir.schedules.flat import sizes_of
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, alloc_shared, shared_type
from relax_mlir.schedules.gpu.pipeline import Barriers
from relax_mlir.schedules.multiples import multiple_of
from relax_mlir.schedules.rule import Refusal

__all__ = ["ROW_BYTES", "Boxes", "boxes_of", "window_axes"]

ROW_BYTES = 128  # of the innermost dimension of a box, as products on Hopper read it
_MOST_DIMENSIONS, _MOST_IN_BOX, _MOST_STEP = 5, 256, 8
_ALIGNMENT = 1024  # bytes, of slices whose pieces change places


@dataclass(frozen=True)
class _Dimension:
    """A dimension of an operand, for the copy engine.

    Attributes:
        extent: how many there are; stride: elements between neighbours.
        place: which of the buffer's dimensions it is; that of several, the innermost.
        terms: where a point is along it: a factor for each axis; constant: and this.
    """

    extent: Extent
    stride: Extent
    place: int
    terms: Mapping[int, int]
    constant: int = 0

    def at(self, point: Mapping[int, Extent]) -> Extent:
        """Where a point is; axes that are missing are 0."""
        total: Extent = self.constant
        for axis, factor in self.terms.items():
            total = add(total, multiply(point.get(axis, 0), factor))
        return total


@dataclass(frozen=True)
class Boxes:
    """An operand of a contraction, in boxes.

    Attributes:
        factor: how it is read.
        dimensions: outermost first.
        box: elements of each that one copy brings; steps: of which it takes each so
            many-th.
        run: the axis of which a slice has several boxes; count: how many.
        is_along_sum: whether steps of the sum are its innermost dimension.
        places: rows or columns that a slice has room for.
    """

    factor: Factor
    dimensions: tuple[_Dimension, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    run: int
    count: int
    is_along_sum: bool
    places: int

    @property
    def _element(self) -> ir.Type:
        return self.factor.element

    @property
    def _rows(self) -> int:
        """Rows of 128 bytes that a slice has room for."""
        if self.is_along_sum:
            return self.places
        return self.count * math.prod(self.box[:-1])

    @property
    def slice_bytes(self) -> int:
        """Of shared memory."""
        return self._rows * ROW_BYTES

    @property
    def copied_bytes(self) -> int:
        """That come for a slice."""
        return math.prod(self.box) * self.count * self._element.width // 8

    def alloc(self, stages: int) -> ir.Value:
        """Shared memory for some slices, one behind the other, by rows of 128 bytes."""
        shape = [stages, self._rows, self.box[-1]]
        return alloc_shared(shape, self._element, _ALIGNMENT)

    def describe(self) -> ir.Value:
        """The descriptor, beside the launch."""
        buffer = self.factor.access.buffer
        extents = [d.extent for d in self.dimensions]
        whole = strided_view(buffer, extents, [d.stride for d in self.dimensions], 0)
        cast = op("memref.cast", ir.UnrankedMemRefType.get(self._element, None), whole)
        box = shared_type(self.box, self._element)
        type_ = ir.Type.parse(
            f"!nvgpu.tensormap.descriptor<tensor = {box}, swizzle = swizzle_128b, "
            "l2promo = l2promo_128b, oob = zero, interleave = none>"
        )
        marked = {}
        if any(step != 1 for step in self.steps):
            marked[marks.STEPS] = ir.DenseI64ArrayAttr.get(self.steps)
        operands = cast, *map(index, self.box)
        return op("nvgpu.tma.create.descriptor", type_, *operands, **marked)

    def copy(
        self,
        descriptor: ir.Value,
        point: Mapping[int, Extent],
        slices: ir.Value,
        stage: Extent,
        barriers: Barriers,
        told: Extent | None = None,
    ) -> None:
        """Begin to bring a slice, by one thread; what lies outside of the operand is 0.

        Args:
            point: where it begins.
            stage: which of ``slices``.
            told: which barrier is told when it has come, if its number is another.
        """
        strides, elements = row_major_strides(self.box), math.prod(self.box)
        begin = multiply(stage, self._rows * self.box[-1])
        for number, where in enumerate(self._begins(point)):
            sizes = [1, 1, 1, len(where), 1, 0, 0]
            op(
                "nvgpu.tma.async.load",
                None,
                strided_view(slices, self.box, strides, add(begin, number * elements)),
                barriers.group,
                descriptor,
                *where,
                index(stage if told is None else told),
                operandSegmentSizes=ir.DenseI32ArrayAttr.get(sizes),
            )

    def ask_ahead(self, descriptor: ir.Value, point: Mapping[int, Extent]) -> None:
        """Let a slice come to a cache, before the launch waits for the one in front."""
        i32 = ir.IntegerType.get_signless(32)
        pointer = op(
            "builtin.unrealized_conversion_cast",
            ir.Type.parse("!llvm.ptr"),
            descriptor,
        )
        for where in self._begins(point):
            coordinates = [op("arith.index_cast", i32, place) for place in where]
            nvvm.cp_async_bulk_tensor_prefetch(pointer, coordinates, [])

    def _begins(self, point: Mapping[int, Extent]) -> Iterator[list[ir.Value]]:
        """Where each box of a slice begins, innermost dimension first."""
        for number in range(self.count):
            at = {**point, self.run: add(point[self.run], number * self.box[-1])}
            yield [index(d.at(at)) for d in reversed(self.dimensions)]


def window_axes(factor: Factor) -> set[int]:
    """The axes that share an index of an operand with others, or step over elements.

    Or that may be outside. The others count on from one dimension to the next as one.
    """
    return factor.edge_axes | {
        axis
        for form in factor.access.forms
        if not isinstance(form, Part)
        for axis in form.coefficients
        if form.single_axis is None or form.constant or form.coefficients[axis] != 1
    }


def boxes_of(
    factor: Factor,
    axes: Sequence[Axis],
    tile: Mapping[int, int],
    last: int,
    places: int,
) -> Boxes:
    """An operand in boxes.

    Args:
        axes: those of the contraction that the operand may depend on.
        tile: points of rows or columns in a slice, by axis, outermost first.
        last: the innermost axis of the sum.
        places: rows or columns that a slice has room for.

    Raises:
        Refusal: the copy engine cannot read it so.
    """
    bytes_ = factor.element.width // 8
    wide, unit = ROW_BYTES // bytes_, ACCESS_BYTES // bytes_
    dimensions = _dimensions(factor, axes)
    *outer, inner = dimensions
    if inner.stride != 1 or any(multiple_of(d.stride) % unit for d in outer):
        raise Refusal("an operand's rows do not begin at multiples of 16 bytes")
    if inner.constant % unit:
        raise Refusal("a slice of an operand does not begin at a multiple of 16 bytes")
    if len(dimensions) > _MOST_DIMENSIONS:
        raise Refusal("an operand has more than 5 dimensions")
    if not all(starmap(_lies_in, pairwise(dimensions))):
        raise Refusal("an operand's dimensions do not lie in one another")
    is_along_sum = last in inner.terms
    if not is_along_sum and not (len(tile) == 1 and inner.terms.keys() == tile.keys()):
        raise Refusal("neither a sum nor its columns lie side by side in an operand")
    (*_, run) = tile
    count = 1
    taken = {**tile, last: wide}
    order = [*tile, last]
    if not is_along_sum:
        taken[run], count, order = wide, places // wide, [last, run]
    box, steps = zip(*(_part(d, taken) for d in dimensions), strict=True)
    seen = [axis for d in dimensions for axis in d.terms if taken.get(axis, 1) > 1]
    if seen != [axis for axis in order if taken[axis] > 1]:
        raise Refusal("an operand's rows lie in another order than those of the result")
    return Boxes(factor, dimensions, box, steps, run, count, is_along_sum, places)


def _lies_in(far: _Dimension, near: _Dimension) -> bool:
    """Whether a dimension steps over wholes of the next one, which buffers have in order."""
    if not isinstance(near.stride, int):
        return True
    size = near.extent if isinstance(near.extent, int) else 1
    is_far = not isinstance(far.stride, int) or far.stride >= near.stride * size
    return is_far and multiple_of(far.stride) % near.stride == 0


def _part(dimension: _Dimension, taken: Mapping[int, int]) -> tuple[int, int]:
    """Elements of a dimension that a box has, and of which it takes each so many-th."""
    some = [axis for axis in dimension.terms if taken.get(axis, 1) > 1]
    if not some:
        return 1, 1
    count, step = taken[some[0]], dimension.terms[some[0]]
    if len(some) > 1 or step > _MOST_STEP or (count - 1) * step >= _MOST_IN_BOX:
        raise Refusal("an operand's windows do not fit a box")
    is_shared = len(dimension.terms) > 1
    if dimension.stride == 1 and (step != 1 or is_shared):
        raise Refusal("windows lie along the rows of an operand")
    return count, step


def _dimensions(factor: Factor, axes: Sequence[Axis]) -> tuple[_Dimension, ...]:
    """The dimensions of an operand, the one that steps farthest first.

    An axis that stands for several is one; windows are over those of the buffer.

    Raises:
        Refusal: it is read by parts of an axis, or windows of it step backwards.
    """
    windows, access = window_axes(factor), factor.access
    if not all(isinstance(form, Linear) for form in access.forms):
        raise Refusal("an operand is read by parts of an axis")
    extents = {axis.number: axis.extent for axis in axes}
    sizes = sizes_of(access.buffer)
    found = []
    for place, (form, size, stride) in enumerate(
        zip(access.forms, sizes, row_major_strides(sizes), strict=True)
    ):
        terms = form.coefficients
        if form.constant or windows & terms.keys():
            if min(terms.values(), default=1) < 1:
                raise Refusal("an operand's windows step backwards")
            found.append(_Dimension(size, stride, place, terms, form.constant))
        elif any(extents.get(axis, 1) != 1 for axis in terms):
            (axis,) = terms
            found.append(_Dimension(extents[axis], stride, place, {axis: 1}))
    return tuple(found)
