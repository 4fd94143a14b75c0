"""Accesses to row-major buffers as offsets into flat, one-dimensional views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.index_maps import OffsetIndex, TiledIndex, buffer_sizes
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    index,
    multiply,
    op,
    product,
    reinterpret,
    row_major_strides,
    strided_view,
)
from relax_mlir.schedules.kernel_view import Access

__all__ = ["FlatAccess", "buffer_extents", "flat_view", "view_at_offset"]


@dataclass(frozen=True)
class FlatAccess:
    """An access as an affine offset into a flat view.

    Attributes:
        view: the buffer as one dimension.
        steps: stride of each axis that the access depends on, in elements.
        blocks: stride between blocks of an axis in a blocked layout, in elements.
        constant: offset where all axes are 0.
    """

    view: ir.Value
    steps: Mapping[int, IndexLike]
    blocks: Mapping[int, IndexLike]
    constant: IndexLike

    @staticmethod
    def of(access: Access) -> FlatAccess:
        """Flatten an access to a row-major buffer."""
        strides = row_major_strides(buffer_extents(access.buffer))
        steps: dict[int, IndexLike] = {}
        blocks: dict[int, IndexLike] = {}
        constant: IndexLike = 0
        for form, stride in zip(access.forms, strides, strict=True):
            if isinstance(form, TiledIndex):
                if not form.is_inner:
                    blocks[form.axis] = stride
                continue
            constant = add(constant, multiply(stride, form.constant))
            if isinstance(form, OffsetIndex):
                constant = add(constant, multiply(stride, form.by))
            for axis, coefficient in form.coefficients.items():
                step = multiply(stride, coefficient)
                steps[axis] = add(steps[axis], step) if axis in steps else step
        return FlatAccess(flat_view(access.buffer), steps, blocks, constant)

    @property
    def begin(self) -> ir.Value:
        """The view from the element at the origin of all axes."""
        return view_at_offset(self.view, self.constant)

    def step(self, axis: int) -> IndexLike:
        """Stride of an axis in elements; 0 if the access does not depend on it."""
        return self.steps.get(axis, 0)

    def offset(self, points: Mapping[int, IndexLike]) -> IndexLike:
        """Offset of a point; missing axes are 0."""
        total = self.constant
        for axis, point in points.items():
            total = add(total, multiply(self.step(axis), point))
        return total


def buffer_extents(buffer: ir.Value) -> list[IndexLike]:
    """The sizes of a buffer; static ones as ints."""
    known = buffer_sizes(buffer)
    return [
        size
        if size is not None
        else op("memref.dim", ir.IndexType.get(), buffer, index(i))
        for i, size in enumerate(known)
    ]


def flat_view(buffer: ir.Value) -> ir.Value:
    """Collapse a row-major buffer to one dimension."""
    total = product(buffer_extents(buffer))
    dynamic = ir.ShapedType.get_dynamic_size()
    size = total if isinstance(total, int) else dynamic
    type_ = ir.MemRefType.get([size], buffer.type.element_type)
    return reinterpret(buffer, type_, [total])


def view_at_offset(view: ir.Value, offset: IndexLike) -> ir.Value:
    """A flat view from an offset in elements."""
    return view if offset == 0 else strided_view(view, [1], [1], offset)
