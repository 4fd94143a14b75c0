"""How many rows and columns of a contraction stay in registers."""

from dataclasses import dataclass

from relax_mlir.schedules.configuration import Configuration

__all__ = [
    "ContractionConfiguration",
    "Rows",
    "Tile",
    "choose_tile",
    "fitting_tiles",
    "tile_of_width",
    "time_per_product",
]


@dataclass(frozen=True)
class Tile:
    """Rows, and vectors of columns, whose sums stay in registers."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class ContractionConfiguration(Configuration):
    """How a contraction is written.

    Attributes:
        rows, vectors: of a tile in registers.
        block_kb: what a block of rows may take of the second-level cache, in KiB.
    """

    rule = "Contraction"
    rows: int
    vectors: int
    block_kb: int


@dataclass(frozen=True)
class Rows:
    """The rows that tiles are cut from.

    Attributes:
        count: how many lie side by side; None if that is not known.
        stride_bytes: from one to the next where they are read; None if it is not known.
    """

    count: int | None
    stride_bytes: int | None = None

    @property
    def most(self) -> int:
        """How many a tile may have: rows a page apart share the same few cache lines."""
        is_page = self.stride_bytes is not None and self.stride_bytes % _PAGE == 0
        return _WAYS if is_page and self.stride_bytes else _MOST_ROWS


_PAGE = 4096  # bytes of a way of the first-level cache
_WAYS = 8  # of it, which eight rows leave room in for the columns
_MOST_ROWS = 28
_MOST_VECTORS = 6
_MOST_OF_ONE_ROW = 16
_REGISTERS = {512: 32, 256: 16, 128: 32}


def choose_tile(rows: Rows, columns: int | None, lanes: int, vector_bits: int) -> Tile:
    """The tile that takes the least time by a model of it.

    Args:
        columns: how many; None if that is not known.
    """
    if rows.count == 1:
        most = 4 if columns is None else -(-columns // lanes)
        return Tile(1, min(_MOST_OF_ONE_ROW, max(1, most)))
    vectors = None if columns is None else max(1, -(-columns // lanes))
    tiles = [
        tile_of_width(rows, width, vector_bits)
        for width in range(1, min(_MOST_VECTORS, vectors or _MOST_VECTORS) + 1)
    ]
    return min(tiles, key=lambda tile: time_per_product(tile, rows, vectors))


def tile_of_width(rows: Rows, vectors: int, vector_bits: int) -> Tile:
    """The tile for panels that are so many vectors wide."""
    if rows.count == 1:
        return Tile(1, vectors)
    most = min(_most_rows(rows, vectors, vector_bits), rows.most)
    tiles = [Tile(count, vectors) for count in range(1, most + 1)]
    return min(tiles, key=lambda tile: time_per_product(tile, rows, vectors))


def fitting_tiles(
    rows: Rows, vectors: int | None, width: int, vector_bits: int
) -> list[Tile]:
    """All tiles whose sums stay in registers, the fastest by the model first.

    Args:
        vectors: of all columns; None if that is not known.
        width: vectors that a tile must have; 0 for any number.
    """
    limit = _MOST_OF_ONE_ROW if rows.count == 1 else _MOST_VECTORS
    widths = [width] if width else range(1, min(limit, vectors or limit) + 1)
    tiles = [
        Tile(count, many)
        for many in widths
        for count in range(1, _most_rows(rows, many, vector_bits) + 1)
    ]
    return sorted(tiles, key=lambda tile: time_per_product(tile, rows, vectors))


def _most_rows(rows: Rows, vectors: int, vector_bits: int) -> int:
    """How many rows registers hold the sums of."""
    # Beside the sums, the columns of one step and one number of a row.
    free = _REGISTERS[vector_bits] - vectors - 1
    return max(1, min(free // vectors, rows.count or _MOST_ROWS, _MOST_ROWS))


def time_per_product(tile: Tile, rows: Rows, vectors: int | None) -> float:
    """How long a product of a row and a vector of columns takes, 1 at the machine's peak.

    Args:
        vectors: of all columns; None if that is not known.
    """
    height, width = rows.count or 64 * tile.rows, vectors or 16 * tile.vectors
    full, left = divmod(height, tile.rows)
    wide, rest = divmod(width, tile.vectors)
    total = 0.0
    for count, times in ((tile.rows, full), (left, 1)):
        for many, panels in ((tile.vectors, wide), (rest, 1)):
            total += times * panels * _slots(count, many)
    return total / (height * width)


def _slots(rows: int, vectors: int) -> float:
    """Slots of a tile's step; two multiply-adds and two loads start in each cycle."""
    if not rows or not vectors:
        return 0.0
    busy = max(rows * vectors, rows + vectors, _LATENCY)
    return busy + _PER_ROW * rows + _PER_COLUMN * vectors


_LATENCY = 8.0  # of a multiply-add, in slots: so many must not wait for each other
_PER_ROW, _PER_COLUMN = 0.05, 0.2  # loads out of the first, and the second cache
