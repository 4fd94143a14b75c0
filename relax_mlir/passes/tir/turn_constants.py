"""``tir-turn-constants``: weights lie along the sums that GPUs compute of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.passes.tir.packed_constants import (
    Packed,
    Packing,
    may_pack,
    summed_axes,
)
from relax_mlir.passes.tir.sums import Read, SumOfProducts
from relax_mlir.rewriting import Pass
from relax_mlir.schedules.gpu.gemv import FEWEST_TERMS, MOST_ROWS

__all__ = ["TurnConstants"]

_TENSOR_CORE_BITS = (
    16  # of factors that tensor cores read both along a sum and across it
)


@dataclass(frozen=True)
class TurnConstants(Pass):
    """Store the constant operand of a contraction column by column.

    The terms of a column lie in the order in which the other operand is read, so that
    threads, or the copy engine, bring neighbours of both. What lies so already, or has its
    columns side by side for each step of one axis, stays as it is, unless those steps
    begin anywhere and columns would at multiples of 16 bytes, or the other operand has so
    few rows that each column is best a warp's own: all processors have some then.

    Args:
        tf32: whether factors of f32 are multiplied by tensor cores, which read them along
            the sum alone.
    """

    tf32: bool = False

    def run(self, module: IRModule) -> None:
        Packing(module, self._choose).run()

    def _choose(self, total: SumOfProducts, weight: Read, other: Read) -> Packed | None:
        if not may_pack(total, weight):
            return None
        column, extents = total.column, total.extents
        assert column is not None  # of what may be packed
        if column in other.axes:
            return None  # each column has a sum of its own
        summed = summed_axes(total, weight, other)
        axes = [column, *summed]
        width = weight.element.width // 8
        strides = [weight.stride_bytes(axis) for axis in axes]
        is_across = (
            strides[0] == width and len([a for a in summed if extents[a] > 1]) < 2
        )
        is_read = not self.tf32 or weight.element.width <= _TENSOR_CORE_BITS
        is_better = _begin_better(weight, summed, extents) or _has_few_rows(total)
        if is_across and is_read and not is_better:
            return None
        wanted = [width]
        for axis in reversed(axes[1:]):
            wanted.insert(0, wanted[0] * extents[axis])
        pairs = zip(axes, strides, wanted, strict=True)
        if all(extents[axis] == 1 or is_ == should for axis, is_, should in pairs):
            return None
        number = ir.BlockArgument(weight.buffer).arg_number
        return Packed(number, weight.shape, weight.forms, axes, extents, 0)


_ACCESS_BYTES = 16  # that a thread, or the copy engine, reads at once


def _begin_better(weight: Read, summed: Sequence[int], extents: Sequence[int]) -> bool:
    """Whether columns would begin at multiples of what is read at once, and rows do not."""
    steps = [weight.stride_bytes(axis) for axis in summed if extents[axis] > 1]
    column_bytes = math.prod(extents[a] for a in summed) * weight.element.width // 8
    are_rows_apart = any(step is None or step % _ACCESS_BYTES for step in steps)
    return are_rows_apart and column_bytes % _ACCESS_BYTES == 0


def _has_few_rows(total: SumOfProducts) -> bool:
    """Whether it is a vector, or little more, times a matrix."""
    axes = list(zip(total.kinds, total.extents, strict=True))
    separate = [
        e for n, (kind, e) in enumerate(axes) if kind == "S" and n != total.column
    ]
    terms = [extent for kind, extent in axes if kind == "R"]
    is_known = min([*separate, *terms], default=0) >= 0
    return (
        is_known
        and math.prod(separate) <= MOST_ROWS
        and math.prod(terms) >= FEWEST_TERMS
    )
