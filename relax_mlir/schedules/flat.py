"""Buffers as one dimension: where elements lie, as offsets from the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.indexing import Part, Shifted, buffer_sizes
from relax_mlir.schedules.emit import (
    Extent,
    add,
    index,
    multiply,
    op,
    product,
    reinterpret,
    row_major_strides,
    strided_view,
)
from relax_mlir.schedules.nest import Access

__all__ = ["Flat", "flat_view", "sizes_of", "view_from"]


@dataclass(frozen=True)
class Flat:
    """What an access reads, by offset.

    Attributes:
        view: the buffer as one dimension.
        steps: elements between neighbours along each axis that the access depends on.
        blocks: by axis, elements between its blocks, where it is laid out in such.
        constant: the offset where all axes are 0.
    """

    view: ir.Value
    steps: Mapping[int, Extent]
    blocks: Mapping[int, Extent]
    constant: Extent

    @staticmethod
    def of(access: Access) -> Flat:
        """An access to a row-major buffer."""
        strides = row_major_strides(sizes_of(access.buffer))
        steps: dict[int, Extent] = {}
        blocks: dict[int, Extent] = {}
        constant: Extent = 0
        for form, stride in zip(access.forms, strides, strict=True):
            if isinstance(form, Part):
                if not form.is_inner:
                    blocks[form.axis] = stride
                continue
            constant = add(constant, multiply(stride, form.constant))
            if isinstance(form, Shifted):
                constant = add(constant, multiply(stride, form.by))
            for axis, factor in form.coefficients.items():
                step = multiply(stride, factor)
                steps[axis] = add(steps[axis], step) if axis in steps else step
        return Flat(flat_view(access.buffer), steps, blocks, constant)

    @property
    def begin(self) -> ir.Value:
        """The view from the element on that is read where all axes are 0."""
        return view_from(self.view, self.constant)

    def step(self, axis: int) -> Extent:
        """Elements between neighbours along an axis; 0 if all are one."""
        return self.steps.get(axis, 0)

    def offset(self, points: Mapping[int, Extent]) -> Extent:
        """Where a point is; axes that are missing are 0."""
        total = self.constant
        for axis, point in points.items():
            total = add(total, multiply(self.step(axis), point))
        return total


def sizes_of(buffer: ir.Value) -> list[Extent]:
    """The size of every dimension."""
    known = buffer_sizes(buffer)
    return [
        size
        if size is not None
        else op("memref.dim", ir.IndexType.get(), buffer, index(i))
        for i, size in enumerate(known)
    ]


def flat_view(buffer: ir.Value) -> ir.Value:
    """A row-major buffer as one dimension."""
    total = product(sizes_of(buffer))
    dynamic = ir.ShapedType.get_dynamic_size()
    size = total if isinstance(total, int) else dynamic
    type_ = ir.MemRefType.get([size], buffer.type.element_type)
    return reinterpret(buffer, type_, [total])


def view_from(view: ir.Value, offset: Extent) -> ir.Value:
    """A view of one dimension from some element on."""
    return view if offset == 0 else strided_view(view, [1], [1], offset)
