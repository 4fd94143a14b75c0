"""``tir-pack-constants``: weights lie in memory as the loops read them."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
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
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.schedules.cpu.amx import block_columns, step_of_run, takes_rows
from relax_mlir.schedules.cpu.contraction_tile import Rows, choose_tile
from relax_mlir.schedules.rule import VectorUnit

__all__ = ["PackConstants"]


@dataclass(frozen=True)
class PackConstants(UnitPass):
    """Store the constant operand of a contraction in blocks of columns.

    A block has as many columns as the rule ``Contraction`` takes at once. It holds them
    for each step of the sum, in the order in which the other operand is read, so that a
    loop reads it from the first byte to the last. The last block is filled up with zeros.
    Where each column has a sum of its own, as in depthwise convolutions, there are no
    blocks: the columns lie side by side. Where one instruction sums several products of
    narrow numbers, or multiplies matrices of them, as many steps of the sum of each column
    are neighbours.
    """

    def run(self, module: IRModule) -> None:
        def choose(total: SumOfProducts, weight: Read, other: Read) -> Packed | None:
            return _plan(total, weight, other, self.unit)

        Packing(module, choose).run()


_EXTF = "arith.extf"  # costs little, where other conversions are not worth packing for


def _plan(
    total: SumOfProducts, weight: Read, other: Read, unit: VectorUnit
) -> Packed | None:
    """How a weight is packed, if it may be."""
    if not may_pack(total, weight):
        return None
    column, extents, used = total.column, total.extents, weight.axes
    assert column is not None  # of what may be packed
    summed = summed_axes(total, weight, other)
    width, group = 0, 1
    if column not in other.axes:
        sum_type = ir.MemRefType(total.written.type).element_type
        types = sum_type, *((r.element, r.extend) for r in (weight, other))
        is_run = _is_run(other, summed)
        words = unit.terms_of_tile(*types)
        is_tiled = is_run and _suits_tiles(total, weight, other, summed, words)
        if is_run:
            group = words if is_tiled else unit.terms_of_dot(*types)
        sum_bits = sum_type.width
        lanes = unit.bits // sum_bits
        is_word = weight.element.width * group == sum_bits
        if extents[column] * 2 < lanes or not (is_word or weight.extend == _EXTF):
            return None
        if is_tiled:
            width = block_columns(extents[column])
        else:
            rows = _rows(total, other, used)
            tile = choose_tile(rows, extents[column], lanes, unit.bits)
            width = tile.vectors * lanes
    elif weight.stride_bytes(column) == weight.element.width // 8:
        return None
    number = ir.BlockArgument(weight.buffer).arg_number
    axes = (*summed, column)
    return Packed(number, weight.shape, weight.forms, axes, extents, width, group)


def _is_run(read: Read, summed: Sequence[int]) -> bool:
    """Whether the terms of a sum lie side by side in an operand."""
    width = read.element.width // 8
    return bool(summed) and read.stride_bytes(summed[-1]) == width


def _suits_tiles(
    total: SumOfProducts, weight: Read, other: Read, summed: Sequence[int], terms: int
) -> bool:
    """Whether tiles pay that hold so many steps of a sum in a word; they need two."""
    rows = [total.extents[axis] for axis in _row_axes(total, other, weight.axes)]
    is_tall = min(rows, default=1) < 0 or takes_rows(math.prod(rows))
    return terms > 1 and is_tall and step_of_run(total.extents[summed[-1]], terms) > 0


def _row_axes(total: SumOfProducts, read: Read, used: Container[int]) -> list[int]:
    """The axes of rows, in the order of an operand; none of one point."""
    return [
        axis
        for form in read.forms
        for axis in form.coefficients
        if total.kinds[axis] == "S" and axis not in used and total.extents[axis] != 1
    ]


def _rows(total: SumOfProducts, read: Read, used: Container[int]) -> Rows:
    """The rows that lie side by side, at least."""
    extents, axes = total.extents, _row_axes(total, read, used)
    if not axes:
        return Rows(1)
    step = read.stride_bytes(axes[-1])
    sizes = [extents[axis] for axis in axes]
    if min(sizes) < 0:
        return Rows(None, step)
    are_windows = any(
        sum(extents[axis] != 1 for axis in form.coefficients) > 1
        or max(form.coefficients.values(), default=1) > 1
        for form in read.forms
    )
    return Rows(sizes[-1] if are_windows else math.prod(sizes), step)
