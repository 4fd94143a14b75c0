"""AMX tiles: registers of up to 16 rows of 64 bytes, and their matrix multiplication.

An accumulator tile has 16 columns of 32 bits. ``tdpbf16ps`` multiplies tiles of bf16, with
two consecutive k of the RHS interleaved per column (VNNI layout). ``tdpbssd`` and its
variants for unsigned operands multiply bytes, with four.

LLVM assigns one shape per tile register in a function, and there are eight registers. So a
kernel uses few tile shapes: remainders of M and K do not get shapes of their own.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18,
and volume 2, TDPBF16PS and TDPBSSD.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, index, op
from relax_mlir.schedules.match_contraction import ContractionOperand

__all__ = [
    "COLUMNS",
    "ROWS",
    "block_columns",
    "has_enough_rows",
    "load_tile",
    "multiply_tiles",
    "store_tile",
    "tile_k_step",
    "tile_type",
    "zero_tile",
]

ROWS = 16
COLUMNS = 16  # of an accumulator tile
_MIN_GROUPS = 4  # 32-bit words per row; fewer use less than a quarter of a tile
_MIN_ROWS = 4  # fewer rows are bound by memory bandwidth


def tile_k_step(run: IndexLike, vnni_factor: int) -> int:
    """K step of the tiles for contiguous runs of k, a divisor of the run length.

    Args:
        run: number of contiguous k; vnni_factor: elements per 32-bit word.

    Returns:
        Elements per tile row; 0 if tiles do not pay.
    """
    if not isinstance(run, int):
        return 0
    groups, remainder = divmod(run, vnni_factor)
    if remainder:
        return 0
    fitting = [n for n in range(_MIN_GROUPS, ROWS + 1) if groups and groups % n == 0]
    return vnni_factor * max(fitting, default=0)


def has_enough_rows(rows: IndexLike) -> bool:
    """Whether AMX tiles are faster for a GEMM with this number of rows."""
    return not isinstance(rows, int) or rows >= _MIN_ROWS


def block_columns(columns: IndexLike) -> int:
    """Panel width: two tiles of columns, or one for narrow GEMMs."""
    is_small = isinstance(columns, int) and columns <= COLUMNS
    return COLUMNS if is_small else 2 * COLUMNS


def tile_type(rows: int, columns: int, element: ir.Type) -> ir.Type:
    """``!amx.tile<rows x columns x element>``."""
    return ir.Type.parse(f"!amx.tile<{rows}x{columns}x{element}>")


def zero_tile(type_: ir.Type) -> ir.Value:
    """Zero a tile."""
    return op("amx.tile_zero", type_)


def load_tile(
    type_: ir.Type, view: ir.Value, offset: IndexLike, stride: IndexLike
) -> ir.Value:
    """Load a tile from a flat view, with ``stride`` elements between rows."""
    segments = ir.DenseI32ArrayAttr.get([1, 1, 1])
    indices = index(offset), index(stride)
    return op("amx.tile_load", type_, view, *indices, operandSegmentSizes=segments)


def store_tile(tile: ir.Value, buffer: ir.Value, indices: Sequence[IndexLike]) -> None:
    """Store a tile to a two-dimensional buffer."""
    segments = ir.DenseI32ArrayAttr.get([1, len(indices), 1, 0])
    at = map(index, indices)
    op("amx.tile_store", None, buffer, *at, tile, operandSegmentSizes=segments)


def multiply_tiles(
    accumulator: ir.Value,
    lhs: ir.Value,
    rhs: ir.Value,
    operands: tuple[ContractionOperand, ContractionOperand],
) -> ir.Value:
    """Tile multiply-accumulate, for the element types and signedness of ``operands``."""
    if all(operand.extend == "arith.extf" for operand in operands):
        return op("amx.tile_mulf", accumulator.type, lhs, rhs, accumulator)
    flags = {
        name: ir.UnitAttr.get()
        for name, operand in zip(("isZextLhs", "isZextRhs"), operands, strict=True)
        if operand.extend == "arith.extui"
    }
    return op("amx.tile_muli", accumulator.type, lhs, rhs, accumulator, **flags)
