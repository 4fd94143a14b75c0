"""Choice of the register tile (MR x NR) of a GEMM micro-kernel by a cost model."""

from dataclasses import dataclass

from relax_mlir.schedules.configuration import Configuration

__all__ = [
    "GemmConfiguration",
    "GemmRows",
    "RegisterTile",
    "choose_tile",
    "cost_per_fma",
    "feasible_tiles",
    "tile_of_width",
]


@dataclass(frozen=True)
class RegisterTile:
    """A register tile of accumulators: MR rows by NR columns in vectors."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class GemmConfiguration(Configuration):
    """Tunable parameters of a GEMM.

    Attributes:
        rows, vectors: of the register tile.
        block_kb: size of a block of LHS rows, which is to stay in L2, in KiB.
    """

    rule = "Gemm"
    rows: int
    vectors: int
    block_kb: int


@dataclass(frozen=True)
class GemmRows:
    """The rows of the LHS from which register tiles are taken.

    Attributes:
        count: consecutive rows with one stride; None if dynamic.
        stride_bytes: row stride of the LHS; None if dynamic.
    """

    count: int | None
    stride_bytes: int | None = None

    @property
    def max_per_tile(self) -> int:
        """Maximum rows of a tile; rows a page apart compete for the ways of L1."""
        is_page = self.stride_bytes is not None and self.stride_bytes % _PAGE == 0
        return _WAYS if is_page and self.stride_bytes else _MAX_ROWS


_PAGE = 4096  # bytes per way of L1
_WAYS = 8  # ways of L1 that rows may use; the others are left to the panel
_MAX_ROWS = 28
_MAX_VECTORS = 6
_MAX_VECTORS_OF_ONE_ROW = 16
_REGISTERS = {512: 32, 256: 16, 128: 32}


def choose_tile(
    rows: GemmRows, columns: int | None, lanes: int, vector_bits: int
) -> RegisterTile:
    """The register tile of the lowest estimated cost.

    Args:
        columns: size of N; None if dynamic.
    """
    if rows.count == 1:
        most = 4 if columns is None else -(-columns // lanes)
        return RegisterTile(1, min(_MAX_VECTORS_OF_ONE_ROW, max(1, most)))
    vectors = None if columns is None else max(1, -(-columns // lanes))
    tiles = [
        tile_of_width(rows, width, vector_bits)
        for width in range(1, min(_MAX_VECTORS, vectors or _MAX_VECTORS) + 1)
    ]
    return min(tiles, key=lambda tile: cost_per_fma(tile, rows, vectors))


def tile_of_width(rows: GemmRows, vectors: int, vector_bits: int) -> RegisterTile:
    """The best register tile for panels of a given width in vectors."""
    if rows.count == 1:
        return RegisterTile(1, vectors)
    most = min(_max_rows(rows, vectors, vector_bits), rows.max_per_tile)
    tiles = [RegisterTile(count, vectors) for count in range(1, most + 1)]
    return min(tiles, key=lambda tile: cost_per_fma(tile, rows, vectors))


def feasible_tiles(
    rows: GemmRows, vectors: int | None, width: int, vector_bits: int
) -> list[RegisterTile]:
    """All register tiles whose accumulators fit the registers, the cheapest first.

    Args:
        vectors: size of N in vectors; None if dynamic.
        width: required width of a tile in vectors; 0 for any.
    """
    limit = _MAX_VECTORS_OF_ONE_ROW if rows.count == 1 else _MAX_VECTORS
    widths = [width] if width else range(1, min(limit, vectors or limit) + 1)
    tiles = [
        RegisterTile(count, tile_vectors)
        for tile_vectors in widths
        for count in range(1, _max_rows(rows, tile_vectors, vector_bits) + 1)
    ]
    return sorted(tiles, key=lambda tile: cost_per_fma(tile, rows, vectors))


def _max_rows(rows: GemmRows, vectors: int, vector_bits: int) -> int:
    """Maximum rows of a tile whose accumulators fit the registers."""
    # Beside the accumulators, the vectors of one k and one broadcast element of the LHS.
    free = _REGISTERS[vector_bits] - vectors - 1
    return max(1, min(free // vectors, rows.count or _MAX_ROWS, _MAX_ROWS))


def cost_per_fma(tile: RegisterTile, rows: GemmRows, vectors: int | None) -> float:
    """Estimated cost of a vector multiply-add, 1 at peak throughput.

    Args:
        vectors: size of N in vectors; None if dynamic.
    """
    height, width = rows.count or 64 * tile.rows, vectors or 16 * tile.vectors
    full, tail_rows = divmod(height, tile.rows)
    wide, tail_vectors = divmod(width, tile.vectors)
    total = 0.0
    for count, times in ((tile.rows, full), (tail_rows, 1)):
        for tile_vectors, panels in ((tile.vectors, wide), (tail_vectors, 1)):
            total += times * panels * _slots(count, tile_vectors)
    return total / (height * width)


def _slots(rows: int, vectors: int) -> float:
    """Issue slots per k of a tile; a cycle has two for multiply-adds and two for loads."""
    if not rows or not vectors:
        return 0.0
    busy = max(rows * vectors, rows + vectors, _LATENCY)
    return busy + _PER_ROW * rows + _PER_COLUMN * vectors


_LATENCY = 8.0  # of a multiply-add, in slots: this many must be independent
_PER_ROW, _PER_COLUMN = 0.05, 0.2  # extra cost of loads from L1 and L2
