"""Operands that the copy engine of a GPU brings to shared memory, box by box.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``: tensors of at most 5 dimensions; all but
the innermost begin at multiples of 16 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

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
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, alloc_shared, shared_type
from relax_mlir.schedules.gpu.pipeline import Barriers
from relax_mlir.schedules.rule import Refusal

__all__ = ["ROW_BYTES", "Boxes", "boxes_of"]

ROW_BYTES = 128  # of the innermost dimension of a box, as products on Hopper read it
_MOST_DIMENSIONS = 5
_ALIGNMENT = 1024  # bytes, of slices whose pieces change places


@dataclass(frozen=True)
class Boxes:
    """An operand of a contraction, in boxes.

    Attributes:
        factor: how it is read.
        dimensions: outermost first; strides: of each, in elements.
        box: elements of each that one copy brings.
        side: the axis of its rows or columns; size: of these in a slice.
    """

    factor: Factor
    dimensions: tuple[Axis, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    side: int
    size: int

    @property
    def is_along_sum(self) -> bool:
        """Whether steps of the sum are its innermost dimension."""
        return self.dimensions[-1].number != self.side

    @property
    def count(self) -> int:
        """How many boxes a slice has: runs of rows or columns."""
        return self.size // self._run

    @property
    def _run(self) -> int:
        return self.box[-2 if self.is_along_sum else -1]

    @property
    def slice_bytes(self) -> int:
        """Of shared memory."""
        return math.prod(self.box) * self.count * self.factor.element.width // 8

    def alloc(self, stages: int) -> ir.Value:
        """Shared memory for some slices, one behind the other."""
        shape = [stages, self.count, *self.box[-2:]]
        return alloc_shared(shape, self.factor.element, _ALIGNMENT)

    @property
    def _type(self) -> ir.Type:
        """Of descriptors."""
        box = shared_type(self.box, self.factor.element)
        return ir.Type.parse(
            f"!nvgpu.tensormap.descriptor<tensor = {box}, swizzle = swizzle_128b, "
            "l2promo = l2promo_128b, oob = zero, interleave = none>"
        )

    def describe(self) -> ir.Value:
        """The descriptor, beside the launch."""
        buffer, element = self.factor.access.buffer, self.factor.element
        offset = _offset(self.factor)
        assert offset is not None
        extents = [axis.extent for axis in self.dimensions]
        whole = strided_view(buffer, extents, self.strides, offset)
        unranked = ir.UnrankedMemRefType.get(element, None)
        cast = op("memref.cast", unranked, whole)
        return op(
            "nvgpu.tma.create.descriptor", self._type, cast, *map(index, self.box)
        )

    def copy(
        self,
        descriptor: ir.Value,
        point: Mapping[int, Extent],
        slices: ir.Value,
        stage: Extent,
        barriers: Barriers,
    ) -> None:
        """Begin to bring a slice, by one thread; what lies outside of the operand is 0.

        Args:
            point: where it begins.
            stage: which of ``slices``, and which barrier is told when it has come.
        """
        strides, elements = row_major_strides(self.box), math.prod(self.box)
        for number in range(self.count):
            at = {**point, self.side: add(point[self.side], number * self._run)}
            offset = multiply(add(multiply(stage, self.count), number), elements)
            where = [index(at[axis.number]) for axis in reversed(self.dimensions)]
            sizes = [1, 1, 1, len(where), 1, 0, 0]
            op(
                "nvgpu.tma.async.load",
                None,
                strided_view(slices, self.box, strides, offset),
                barriers.group,
                descriptor,
                *where,
                index(stage),
                operandSegmentSizes=ir.DenseI32ArrayAttr.get(sizes),
            )


def boxes_of(
    factor: Factor,
    outer: Sequence[Axis],
    side: Axis,
    summed: Sequence[Axis],
    size: int,
) -> Boxes:
    """An operand in boxes, of which some have ``size`` points of its side.

    Args:
        outer: axes of separate products; side: its rows or columns; summed: the sum.

    Raises:
        Refusal: the copy engine cannot read it so.
    """
    access, bytes_ = factor.access, factor.element.width // 8
    wide, unit = ROW_BYTES // bytes_, ACCESS_BYTES // bytes_
    own = [a for a in outer if a.number in access.axes and a.extent != 1]
    *others, last = [*own, *summed]
    *far, step, across = (access.stride_of(a.number) for a in (*others, last, side))
    if any(n is None or n % unit for n in (*far, _offset(factor))):
        raise Refusal("an operand begins at no multiples of 16 bytes")
    if len(others) + 2 > _MOST_DIMENSIONS:
        raise Refusal("an operand has more than 5 dimensions")
    if any(not isinstance(a.extent, int) or a.extent % wide for a in summed[1:]):
        raise Refusal("a slice crosses the end of an axis of the sum")
    if step == 1 and across is not None and across % unit == 0:
        inner, strides, box = [side, last], [*far, across, 1], [size, wide]
    elif across == 1 and step is not None and step % unit == 0:
        inner, strides, box = [last, side], [*far, step, 1], [wide, wide]
    else:
        raise Refusal("an operand's rows do not begin at multiples of 16 bytes")
    return Boxes(
        factor,
        (*others, *inner),
        tuple(n for n in strides if n is not None),
        (*[1] * len(others), *box),
        side.number,
        size,
    )


def _offset(factor: Factor) -> int | None:
    """Where the first element is; None where that is not constant."""
    access = factor.access
    strides, _ = access.buffer.type.get_strides_and_offset()
    total = 0
    for form, stride in zip(access.forms, strides, strict=True):
        if form.constant and stride < 0:
            return None
        total += form.constant * stride
    return total
