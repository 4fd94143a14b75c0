"""``tir-transpose-constants``: K-major weights for GPU kernels."""

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
from relax_mlir.schedules.gpu.gemv import MAX_GEMV_ROWS, MIN_GEMV_K
from relax_mlir.schedules.target_features import Gpu

__all__ = ["TransposeConstants"]

# Width of the operands that tensor cores read in both K-major and MN-major order.
_TENSOR_CORE_BITS = 16


@dataclass(frozen=True)
class TransposeConstants(Pass):
    """Store the constant operand of a contraction K-major, so that each column is contiguous.

    K follows the order in which the other operand is read, so that threads, or the TMA, load
    contiguous elements of both. Weights that are K-major already stay, and so do MN-major ones
    whose columns are contiguous for one K axis, unless their rows are not aligned to 16 bytes
    and columns would be, or the other operand has so few rows (GEMV) that each column is best
    reduced by one warp, for occupancy.

    Args:
        gpu: the target device. Its tensor cores, if they multiply f32 operands (TF32), read
            those in K-major order only.
    """

    gpu: Gpu = Gpu()

    def run(self, module: IRModule) -> None:
        ConstantPacking(module, self._choose).run()

    def _choose(
        self,
        contraction: ContractionBlock,
        weight: OperandAccess,
        other: OperandAccess,
    ) -> PackedLayout | None:
        if not may_pack(contraction, weight):
            return None
        column, extents = contraction.column, contraction.extents
        assert column is not None  # by `may_pack`
        if column not in contraction.roles(other, weight).n:
            return None  # depthwise: each column has its own reduction
        summed = reduction_axes(contraction, weight, other)
        axes = [column, *summed]
        width = weight.element.width // 8
        strides = [weight.stride_bytes(axis) for axis in axes]
        is_mn_major = (
            strides[0] == width and len([a for a in summed if extents[a] > 1]) < 2
        )
        is_supported = not self.gpu.tf32 or weight.element.width <= _TENSOR_CORE_BITS
        is_better = _is_better_aligned(weight, summed, extents) or _has_few_rows(
            contraction
        )
        if is_mn_major and is_supported and not is_better:
            return None
        wanted = [width]
        for axis in reversed(axes[1:]):
            wanted.insert(0, wanted[0] * extents[axis])
        pairs = zip(axes, strides, wanted, strict=True)
        if all(extents[axis] == 1 or is_ == should for axis, is_, should in pairs):
            return None
        number = ir.BlockArgument(weight.buffer).arg_number
        return PackedLayout(number, weight.shape, weight.index_maps, axes, extents, 0)


_ACCESS_BYTES = 16  # of a vector load or of TMA alignment


def _is_better_aligned(
    weight: OperandAccess, summed: Sequence[int], extents: Sequence[int]
) -> bool:
    """Whether columns would be aligned for vector loads, and rows are not."""
    steps = [weight.stride_bytes(axis) for axis in summed if extents[axis] > 1]
    column_bytes = math.prod(extents[a] for a in summed) * weight.element.width // 8
    are_rows_apart = any(step is None or step % _ACCESS_BYTES for step in steps)
    return are_rows_apart and column_bytes % _ACCESS_BYTES == 0


def _has_few_rows(contraction: ContractionBlock) -> bool:
    """Whether the contraction has few enough rows, and a long enough K, for the GEMV rule."""
    axes = list(zip(contraction.kinds, contraction.extents, strict=True))
    separate = [
        e for n, (kind, e) in enumerate(axes) if kind == "S" and n != contraction.column
    ]
    reduction = [extent for kind, extent in axes if kind == "R"]
    is_known = min([*separate, *reduction], default=0) >= 0
    return (
        is_known
        and math.prod(separate) <= MAX_GEMV_ROWS
        and math.prod(reduction) >= MIN_GEMV_K
    )
