"""GEMM operands as TMA tensors: tensor maps, boxes, swizzle, element strides.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``: tensors of at most 5 dimensions, whose
strides are multiples of 16 bytes and of the extent of the next inner dimension; the element
stride of a box is at most 8 along each dimension. A box whose innermost coordinate is not a
multiple of 16 bytes is an illegal instruction on an H200 (measured).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap

from mlir import ir
from mlir.dialects import nvvm

from relax_mlir.analysis.index_maps import TiledIndex
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    affine_value,
    index,
    multiply,
    op,
    row_major_strides,
    strided_view,
)
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.divisibility import known_divisor
from relax_mlir.schedules.flat_buffers import buffer_extents
from relax_mlir.schedules.gpu.async_pipeline import Mbarriers
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, alloc_shared, shared_type
from relax_mlir.schedules.match_contraction import ContractionOperand
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["SWIZZLE_BYTES", "TmaOperand", "plan_tma_operand", "window_axes"]

SWIZZLE_BYTES = 128  # innermost extent of a box, in bytes, for the 128-byte swizzle
_MAX_RANK, _MAX_BOX, _MAX_ELEMENT_STRIDE = 5, 256, 8
_ALIGNMENT = 1024  # bytes, for swizzled tiles in shared memory


@dataclass(frozen=True)
class _Dimension:
    """A dimension of a TMA tensor.

    Attributes:
        extent: of the dimension; stride: in elements.
        dimension: number of the buffer's dimension; of several fused ones, the innermost.
        coordinate: affine form of the axes.
    """

    extent: IndexLike
    stride: IndexLike
    dimension: int
    coordinate: AffineForm[int]

    @property
    def coefficients(self) -> Mapping[int, int]:
        """The coefficients of the coordinate."""
        return self.coordinate.coefficients

    def at(self, point: Mapping[int, IndexLike]) -> IndexLike:
        """The coordinate of a point; missing axes are 0."""
        return affine_value(self.coordinate, lambda axis: point.get(axis, 0))


@dataclass(frozen=True)
class TmaOperand:
    """A GEMM operand as a TMA tensor; one copy loads a box of it, a stage has several.

    Attributes:
        operand: the operand of the contraction.
        dimensions: outermost first.
        box: extents of a box; element_strides: its element strides.
        box_axis: the axis along which a stage has several boxes; count: of boxes.
        is_k_major: whether it is K-major.
        points: rows or columns of a stage.
    """

    operand: ContractionOperand
    dimensions: tuple[_Dimension, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    box_axis: int
    count: int
    is_k_major: bool
    points: int

    @property
    def _element(self) -> ir.Type:
        return self.operand.element

    @property
    def _rows(self) -> int:
        """Rows of 128 bytes per stage."""
        if self.is_k_major:
            return self.points
        return self.count * math.prod(self.box[:-1])

    @property
    def stage_bytes(self) -> int:
        """Size of a stage in shared memory."""
        return self._rows * SWIZZLE_BYTES

    @property
    def transaction_bytes(self) -> int:
        """Transaction bytes of the copies of a stage."""
        return math.prod(self.box) * self.count * self._element.width // 8

    def alloc(self, stages: int) -> ir.Value:
        """Allocates consecutive stages in shared memory, in rows of 128 bytes."""
        shape = [stages, self._rows, self.box[-1]]
        return alloc_shared(shape, self._element, _ALIGNMENT)

    def create_tensor_map(self) -> ir.Value:
        """Emits the tensor map, outside of the launch."""
        buffer = self.operand.access.buffer
        extents = [d.extent for d in self.dimensions]
        whole = strided_view(buffer, extents, [d.stride for d in self.dimensions], 0)
        cast = op("memref.cast", ir.UnrankedMemRefType.get(self._element, None), whole)
        box = shared_type(self.box, self._element)
        type_ = ir.Type.parse(
            f"!nvgpu.tensormap.descriptor<tensor = {box}, swizzle = swizzle_128b, "
            "l2promo = l2promo_128b, oob = zero, interleave = none>"
        )
        attributes = {}
        if any(step != 1 for step in self.element_strides):
            attributes[attribute_names.STEPS] = ir.DenseI64ArrayAttr.get(
                self.element_strides
            )
        operands = cast, *map(index, self.box)
        return op("nvgpu.tma.create.descriptor", type_, *operands, **attributes)

    def load(
        self,
        descriptor: ir.Value,
        point: Mapping[int, IndexLike],
        buffer: ir.Value,
        stage: IndexLike,
        barriers: Mbarriers,
        barrier: IndexLike | None = None,
    ) -> None:
        """Emits the TMA copies of a stage, by one thread; out-of-bounds elements are 0.

        Args:
            point: origin of the tile.
            buffer: the stages in shared memory; stage: the one to fill.
            barrier: number of the mbarrier that completes, if not ``stage``.
        """
        strides, elements = row_major_strides(self.box), math.prod(self.box)
        begin = multiply(stage, self._rows * self.box[-1])
        for number, where in enumerate(self._box_coordinates(point)):
            sizes = [1, 1, 1, len(where), 1, 0, 0]
            op(
                "nvgpu.tma.async.load",
                None,
                strided_view(buffer, self.box, strides, add(begin, number * elements)),
                barriers.group,
                descriptor,
                *where,
                index(stage if barrier is None else barrier),
                operandSegmentSizes=ir.DenseI32ArrayAttr.get(sizes),
            )

    def prefetch(self, descriptor: ir.Value, point: Mapping[int, IndexLike]) -> None:
        """Emits TMA prefetches of a stage to L2, before the wait for the previous grid."""
        i32 = ir.IntegerType.get_signless(32)
        pointer = op(
            "builtin.unrealized_conversion_cast",
            ir.Type.parse("!llvm.ptr"),
            descriptor,
        )
        for where in self._box_coordinates(point):
            coordinates = [
                op("arith.index_cast", i32, coordinate) for coordinate in where
            ]
            nvvm.cp_async_bulk_tensor_prefetch(pointer, coordinates, [])

    def _box_coordinates(
        self, point: Mapping[int, IndexLike]
    ) -> Iterator[list[ir.Value]]:
        """Coordinates of each box of a stage, innermost dimension first."""
        for number in range(self.count):
            at = {
                **point,
                self.box_axis: add(point[self.box_axis], number * self.box[-1]),
            }
            yield [index(d.at(at)) for d in reversed(self.dimensions)]


def window_axes(operand: ContractionOperand) -> set[int]:
    """The axes of windows: that share an index, have a stride or offset, or need padding.

    All other axes can be fused across dimensions.
    """
    return operand.padded_axes | {
        axis
        for form in operand.access.forms
        if not isinstance(form, TiledIndex)
        for axis in form.coefficients
        if form.single_variable is None or form.constant or form.coefficients[axis] != 1
    }


def plan_tma_operand(
    operand: ContractionOperand,
    axes: Sequence[Axis],
    tile: Mapping[int, int],
    last: int,
    points: int,
) -> TmaOperand:
    """Plans the TMA tensor and the boxes of an operand.

    Args:
        axes: of the contraction, on which the operand may depend.
        tile: extents of a tile along M or N, by axis, outermost first.
        last: the innermost K axis.
        points: rows or columns of a stage.

    Raises:
        NotApplicable: TMA cannot read the operand.
    """
    bytes_ = operand.element.width // 8
    row_elements, alignment = SWIZZLE_BYTES // bytes_, ACCESS_BYTES // bytes_
    dimensions = _dimensions(operand, axes)
    *outer, inner = dimensions
    if inner.stride != 1 or any(known_divisor(d.stride) % alignment for d in outer):
        raise NotApplicable("an operand's strides are not multiples of 16 bytes")
    if inner.coordinate.constant % alignment:
        raise NotApplicable("an operand's tiles are not aligned to 16 bytes")
    if len(dimensions) > _MAX_RANK:
        raise NotApplicable("an operand has more than 5 dimensions")
    if not all(starmap(_is_nested, pairwise(dimensions))):
        raise NotApplicable("an operand's dimensions overlap")
    is_k_major = last in inner.coefficients
    if not is_k_major and not (
        len(tile) == 1 and inner.coefficients.keys() == tile.keys()
    ):
        raise NotApplicable("an operand is neither K-major nor MN-major")
    (*_, box_axis) = tile
    count = 1
    box_extents = {**tile, last: row_elements}
    order = [*tile, last]
    if not is_k_major:
        box_extents[box_axis], count, order = (
            row_elements,
            points // row_elements,
            [last, box_axis],
        )
    box, element_strides = zip(
        *(_box_extent(d, box_extents) for d in dimensions), strict=True
    )
    order_in_memory = [
        axis
        for d in dimensions
        for axis in d.coefficients
        if box_extents.get(axis, 1) > 1
    ]
    if order_in_memory != [axis for axis in order if box_extents[axis] > 1]:
        raise NotApplicable("the axes of an operand and of the result differ in order")
    return TmaOperand(
        operand, dimensions, box, element_strides, box_axis, count, is_k_major, points
    )


def _is_nested(outer: _Dimension, inner: _Dimension) -> bool:
    """Whether the stride of a dimension is a multiple of the next one's, past its extent."""
    if not isinstance(inner.stride, int):
        return True
    size = inner.extent if isinstance(inner.extent, int) else 1
    is_far = not isinstance(outer.stride, int) or outer.stride >= inner.stride * size
    return is_far and known_divisor(outer.stride) % inner.stride == 0


def _box_extent(
    dimension: _Dimension, box_extents: Mapping[int, int]
) -> tuple[int, int]:
    """Extent of a box along a dimension, and its element stride."""
    tiled = [axis for axis in dimension.coefficients if box_extents.get(axis, 1) > 1]
    if not tiled:
        return 1, 1
    count, step = box_extents[tiled[0]], dimension.coefficients[tiled[0]]
    if len(tiled) > 1 or step > _MAX_ELEMENT_STRIDE or (count - 1) * step >= _MAX_BOX:
        raise NotApplicable("an operand's windows do not fit in a box")
    is_shared = len(dimension.coefficients) > 1
    if dimension.stride == 1 and (step != 1 or is_shared):
        raise NotApplicable("an operand has windows along its contiguous dimension")
    return count, step


def _dimensions(
    operand: ContractionOperand, axes: Sequence[Axis]
) -> tuple[_Dimension, ...]:
    """The TMA dimensions of an operand, the one of the largest stride first.

    Fused axes are one dimension; window axes keep the dimensions of the buffer.

    Raises:
        NotApplicable: it is indexed by floordiv or mod, or has windows of negative stride.
    """
    windows, access = window_axes(operand), operand.access
    if not access.is_affine:
        raise NotApplicable("an operand is indexed by floordiv or mod of an axis")
    extents = {axis.number: axis.extent for axis in axes}
    sizes = buffer_extents(access.buffer)
    found = []
    for dimension, (form, size, stride) in enumerate(
        zip(access.forms, sizes, row_major_strides(sizes), strict=True)
    ):
        coefficients = form.coefficients
        if form.constant or windows & coefficients.keys():
            if min(coefficients.values(), default=1) < 1:
                raise NotApplicable("an operand's windows have a negative stride")
            found.append(_Dimension(size, stride, dimension, form))
        elif any(extents.get(axis, 1) != 1 for axis in coefficients):
            (axis,) = coefficients
            found.append(
                _Dimension(extents[axis], stride, dimension, AffineForm({axis: 1}))
            )
    return tuple(found)
