"""In-register transposes of square tiles of vectors."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.builder import op

__all__ = ["transpose_lanes"]


def transpose_lanes(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose a lanes x lanes tile held in vectors, by log2(lanes) rounds of shuffles.

    The round of distance d = 1, 2, 4, ... exchanges runs of d elements between vectors d
    apart.
    """
    vectors, distance = list(rows), 1
    count = len(vectors)
    while distance < count:
        upper = [j if not j & distance else count + j - distance for j in range(count)]
        lower = [j + distance if not j & distance else count + j for j in range(count)]
        for i in range(count):
            if not i & distance:
                pair = vectors[i], vectors[i + distance]
                vectors[i] = _shuffled(*pair, upper)
                vectors[i + distance] = _shuffled(*pair, lower)
        distance *= 2
    return vectors


def _shuffled(first: ir.Value, second: ir.Value, order: Sequence[int]) -> ir.Value:
    mask = ir.DenseI64ArrayAttr.get(list(order))
    return op("vector.shuffle", first.type, first, second, mask=mask)
