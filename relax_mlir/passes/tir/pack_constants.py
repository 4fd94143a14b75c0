"""``tir-pack-constants``: weight prepacking for CPU micro-kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.contraction import ContractionBlock, OperandAccess
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.tir.prepacking import (
    ConstantPacking,
    PackedLayout,
    may_pack,
    reduction_axes,
)
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.cpu.amx import block_columns, has_enough_rows, tile_k_step
from relax_mlir.schedules.cpu.gemm_tile import GemmRows, choose_tile
from relax_mlir.schedules.target_features import VectorUnit

__all__ = ["PackConstants"]


@dataclass(frozen=True)
class PackConstants(Pass):
    """Pack the constant operand of a contraction into column panels.

    A panel has NR columns, the width of the micro-kernel of the rule ``Gemm``. It stores
    them for each step of K, in the order in which the other operand is read, so that the kernel
    streams it from the first byte to the last. The last panel is padded with zeros. Where each
    column has its own reduction, as in depthwise convolutions, there are no panels: columns are
    contiguous. For dot-product instructions (VNNI) and tiles (AMX), groups of consecutive K
    elements of a column are interleaved.

    Args:
        unit: vector features of the CPU.
    """

    unit: VectorUnit = VectorUnit()

    def run(self, module: IRModule) -> None:
        def choose(
            contraction: ContractionBlock,
            weight: OperandAccess,
            other: OperandAccess,
        ) -> PackedLayout | None:
            return _choose_packing(contraction, weight, other, self.unit)

        ConstantPacking(module, choose).run()


_EXTF = "arith.extf"  # cheap; other conversions make packing unprofitable


def _choose_packing(
    contraction: ContractionBlock,
    weight: OperandAccess,
    other: OperandAccess,
    unit: VectorUnit,
) -> PackedLayout | None:
    """The packing of a weight, or None."""
    if not may_pack(contraction, weight):
        return None
    column, extents = contraction.column, contraction.extents
    assert column is not None  # by `may_pack`
    summed = reduction_axes(contraction, weight, other)
    width, group = 0, 1
    if column in contraction.roles(other, weight).n:
        sum_type = ir.MemRefType(contraction.output.type).element_type
        types = sum_type, *((r.element, r.extend) for r in (weight, other))
        is_k_contiguous = _is_k_contiguous(other, summed)
        words = unit.amx_vnni_factor(*types)
        is_tiled = is_k_contiguous and _prefers_tiles(
            contraction, weight, other, summed, words
        )
        if is_k_contiguous:
            group = words if is_tiled else unit.dot_vnni_factor(*types)
        sum_bits = sum_type.width
        lanes = unit.vector_bits // sum_bits
        is_word = weight.element.width * group == sum_bits
        if extents[column] * 2 < lanes or not (is_word or weight.extend == _EXTF):
            return None
        if is_tiled:
            width = block_columns(extents[column])
        else:
            rows = _rows(contraction, other, weight)
            tile = choose_tile(rows, extents[column], lanes, unit.vector_bits)
            width = tile.vectors * lanes
    elif weight.stride_bytes(column) == weight.element.width // 8:
        return None
    number = ir.BlockArgument(weight.buffer).arg_number
    axes = (*summed, column)
    return PackedLayout(
        number, weight.shape, weight.index_maps, axes, extents, width, group
    )


def _is_k_contiguous(read: OperandAccess, summed: Sequence[int]) -> bool:
    """Whether K is contiguous in an operand."""
    width = read.element.width // 8
    return bool(summed) and read.stride_bytes(summed[-1]) == width


def _prefers_tiles(
    contraction: ContractionBlock,
    weight: OperandAccess,
    other: OperandAccess,
    summed: Sequence[int],
    group: int,
) -> bool:
    """Whether AMX tiles, with words of ``group`` K elements, are profitable."""
    rows = [contraction.extents[axis] for axis in _row_axes(contraction, other, weight)]
    is_tall = min(rows, default=1) < 0 or has_enough_rows(math.prod(rows))
    return (
        group > 1
        and is_tall
        and tile_k_step(contraction.extents[summed[-1]], group) > 0
    )


def _row_axes(
    contraction: ContractionBlock, read: OperandAccess, weight: OperandAccess
) -> list[int]:
    """The non-unit row (M) axes, in the order of an operand's dimensions."""
    rows = contraction.roles(read, weight).m
    return [
        axis
        for form in read.index_maps
        for axis in form.coefficients
        if axis in rows and contraction.extents[axis] != 1
    ]


def _rows(
    contraction: ContractionBlock, read: OperandAccess, weight: OperandAccess
) -> GemmRows:
    """The rows (M) that are contiguous or equally spaced, at least."""
    extents, axes = contraction.extents, _row_axes(contraction, read, weight)
    if not axes:
        return GemmRows(1)
    step = read.stride_bytes(axes[-1])
    sizes = [extents[axis] for axis in axes]
    if min(sizes) < 0:
        return GemmRows(None, step)
    are_windows = any(
        sum(extents[axis] != 1 for axis in form.coefficients) > 1
        or max(form.coefficients.values(), default=1) > 1
        for form in read.index_maps
    )
    return GemmRows(sizes[-1] if are_windows else math.prod(sizes), step)
