"""Tiles of AMX: registers of up to 16 rows of 64 bytes, and the product of two of them.

A tile of sums has 16 columns of 32 bits. ``tdpbf16ps`` adds to it the product of rows of
bf16 with columns of which two steps of the sum are neighbours, ``tdpbssd`` and its
siblings, one for each pair of signs, that of bytes, four of which are.

The compiler gives every register one shape in a whole function, and there are eight. So the
tiles of a kernel have few shapes: what is left of its rows and its sums is no shape of its own.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18,
and volume 2, TDPBF16PS and TDPBSSD.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.contraction_plan import Factor
from relax_mlir.schedules.emit import Extent, index, op

__all__ = [
    "COLUMNS",
    "ROWS",
    "block_columns",
    "load_tile",
    "multiply_tiles",
    "step_of_run",
    "store_tile",
    "takes_rows",
    "tile_type",
    "zero_tile",
]

ROWS = 16
COLUMNS = 16  # of sums, of 32 bits each
_LEAST_GROUPS = (
    4  # words of a row; shorter ones leave three quarters of the work undone
)
_FEWEST_ROWS = 4  # fewer are a matter of bringing the columns from memory


def step_of_run(run: Extent, terms: int) -> int:
    """How many terms of a run of them a tile's row holds, the same for all steps.

    Args:
        run: terms of a sum that lie side by side; terms: that make a word.

    Returns:
        0, if tiles do not pay.
    """
    if not isinstance(run, int):
        return 0
    groups, left = divmod(run, terms)
    if left:
        return 0
    fitting = [n for n in range(_LEAST_GROUPS, ROWS + 1) if groups and groups % n == 0]
    return terms * max(fitting, default=0)


def takes_rows(rows: Extent) -> bool:
    """Whether tiles pay for so many rows."""
    return not isinstance(rows, int) or rows >= _FEWEST_ROWS


def block_columns(columns: Extent) -> int:
    """Columns that a tile of rows meets at a time: two tiles of them, or one for few."""
    is_small = isinstance(columns, int) and columns <= COLUMNS
    return COLUMNS if is_small else 2 * COLUMNS


def tile_type(rows: int, columns: int, element: ir.Type) -> ir.Type:
    """``!amx.tile<rows x columns x element>``."""
    return ir.Type.parse(f"!amx.tile<{rows}x{columns}x{element}>")


def zero_tile(type_: ir.Type) -> ir.Value:
    """A tile of zeros."""
    return op("amx.tile_zero", type_)


def load_tile(
    type_: ir.Type, view: ir.Value, offset: Extent, stride: Extent
) -> ir.Value:
    """Read a tile of a buffer of one dimension, ``stride`` elements from row to row."""
    segments = ir.DenseI32ArrayAttr.get([1, 1, 1])
    where = index(offset), index(stride)
    return op("amx.tile_load", type_, view, *where, operandSegmentSizes=segments)


def store_tile(tile: ir.Value, buffer: ir.Value, where: Sequence[Extent]) -> None:
    """Write a tile to a buffer of two dimensions."""
    segments = ir.DenseI32ArrayAttr.get([1, len(where), 1, 0])
    at = map(index, where)
    op("amx.tile_store", None, buffer, *at, tile, operandSegmentSizes=segments)


def multiply_tiles(
    total: ir.Value, rows: ir.Value, columns: ir.Value, factors: tuple[Factor, Factor]
) -> ir.Value:
    """``total`` and the product of rows and columns, which ``factors`` tell the signs of."""
    if all(factor.extend == "arith.extf" for factor in factors):
        return op("amx.tile_mulf", total.type, rows, columns, total)
    flags = {
        name: ir.UnitAttr.get()
        for name, factor in zip(("isZextLhs", "isZextRhs"), factors, strict=True)
        if factor.extend == "arith.extui"
    }
    return op("amx.tile_muli", total.type, rows, columns, total, **flags)
