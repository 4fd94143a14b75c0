"""Squares of vectors: as many as each has lanes."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.emit import op

__all__ = ["turn"]


def turn(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """A square of vectors, its columns as vectors.

    In each step neighbours 1, 2, 4, ... apart exchange halves of their runs of as many
    elements.
    """
    found, distance = list(rows), 1
    count = len(found)
    while distance < count:
        upper = [j if not j & distance else count + j - distance for j in range(count)]
        lower = [j + distance if not j & distance else count + j for j in range(count)]
        for i in range(count):
            if not i & distance:
                pair = found[i], found[i + distance]
                found[i] = _shuffled(*pair, upper)
                found[i + distance] = _shuffled(*pair, lower)
        distance *= 2
    return found


def _shuffled(first: ir.Value, second: ir.Value, order: Sequence[int]) -> ir.Value:
    mask = ir.DenseI64ArrayAttr.get(list(order))
    return op("vector.shuffle", first.type, first, second, mask=mask)
