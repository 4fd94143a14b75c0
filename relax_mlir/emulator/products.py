"""Products of matrices that a library computes between launches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects.tir import LibraryProductOp
from relax_mlir.emulator.library_memory import check_apart, check_inside
from relax_mlir.emulator.memory import Buffer
from relax_mlir.emulator.operations import numpy_type
from relax_mlir.emulator.warps import tf32_bits

__all__ = ["multiply"]


def multiply(
    operation: LibraryProductOp, lhs: Buffer, rhs: Buffer, result: Buffer, *rest: object
) -> None:
    """Compute ``tir.library_product``: sums in f32, or in f64 of such factors.

    Args:
        rest: its sizes and distances, then the bias if it has one.

    Raises:
        EmulationError: a matrix leaves its buffer, or the result lies in an operand.
    """
    numbers = [int(n[0]) for n in rest[:10] if isinstance(n, np.ndarray)]
    batch, rows, columns, terms = numbers[:4]
    leading, steps = numbers[4:7], numbers[7:10]
    turned = [ir.BoolAttr(flag).value for flag in operation.turned]
    shapes = (rows, terms), (terms, columns), (rows, columns)
    places = [
        _places(buffer, (batch, *shape), between, step, is_turned)
        for buffer, shape, between, step, is_turned in zip(
            (lhs, rhs, result), shapes, leading, steps, (*turned, False), strict=True
        )
    ]
    biases = [buffer for buffer in rest[10:] if isinstance(buffer, Buffer)]
    added = [_places(buffer, (1, 1, columns), 0, 0, False) for buffer in biases]
    check_apart(
        (result, places[2]),
        [(lhs, places[0]), (rhs, places[1]), *zip(biases, added, strict=True)],
    )
    stored = numpy_type(ir.MemRefType(operation.result.type).element_type)
    wide = np.float64 if stored == np.float64 else np.float32
    factors = [
        buffer.memory.array[where].astype(wide)
        for buffer, where in zip((lhs, rhs), places, strict=False)
    ]
    if ir.BoolAttr(operation.tf32).value:
        factors = [tf32_bits(factor).view(np.float32) for factor in factors]
    total = np.matmul(*factors)
    for buffer, where in zip(biases, added, strict=True):
        total = total + buffer.memory.array[where].astype(wide)
    if ir.StringAttr(operation.activation).value == "relu":
        total = np.maximum(total, 0)
    result.memory.array[places[2]] = total.astype(stored)


def _places(
    buffer: Buffer, shape: Sequence[int], leading: int, step: int, is_turned: bool
) -> np.ndarray:
    """Where the elements of a batch of matrices are.

    Raises:
        EmulationError: one is outside.
    """
    batch, rows, columns = np.indices(shape)
    if is_turned:
        rows, columns = columns, rows
    return check_inside(buffer, batch * step + rows * leading + columns)
