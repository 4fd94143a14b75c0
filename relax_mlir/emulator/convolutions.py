"""Convolutions that a library computes between launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
from mlir import ir

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.dialects.tir import LibraryConvolutionOp
from relax_mlir.emulator.library_memory import addresses_of, check_apart, check_inside
from relax_mlir.emulator.memory import Buffer, EmulationError
from relax_mlir.emulator.operations import numpy_type
from relax_mlir.emulator.warps import tf32_bits

__all__ = ["convolve"]


def convolve(
    operation: LibraryConvolutionOp,
    picture: Buffer,
    weights: Buffer,
    result: Buffer,
    batch: np.ndarray,
    *rest: Buffer,
) -> None:
    """Compute ``tir.library_convolution``: sums in f32, or in f64 of such factors.

    Args:
        rest: its bias, if it has one, and its residual, likewise.

    Raises:
        EmulationError: it is no convolution; an operand leaves its buffer; or the result
            lies in an operand in another way than where the residual is.
    """
    shape, pictures = operation.shape, int(batch[0])
    try:
        shape.check()
    except ValueError as error:
        raise EmulationError(str(error)) from error
    read = check_inside(
        picture,
        _places(shape.picture_strides, (pictures, shape.channels, *shape.picture)),
    )
    factors = check_inside(weights, np.arange(shape.weight_elements))
    lying = _places(shape.result_strides, (pictures, shape.filters, *shape.result))
    written = check_inside(result, lying)
    added = list(rest)
    bias = [added.pop(0)] if operation.bias else []
    biases = [check_inside(buffer, np.arange(shape.filters)) for buffer in bias]
    residuals = [check_inside(buffer, lying) for buffer in added]
    check_apart(
        (result, written),
        [
            *((picture, read), (weights, factors)),
            *zip(bias, biases, strict=True),
            *_elsewhere(result, written, added, residuals),
        ],
    )
    stored = numpy_type(ir.MemRefType(operation.result.type).element_type)
    wide = np.float64 if stored == np.float64 else np.float32
    x, w = (
        buffer.memory.array[where].astype(wide)
        for buffer, where in ((picture, read), (weights, factors))
    )
    if ir.BoolAttr(operation.tf32).value:
        x, w = (tf32_bits(factor).view(np.float32) for factor in (x, w))
    total = _sums(shape, x, _by_filters(shape, w))
    for buffer, where in zip(bias, biases, strict=True):
        numbers = buffer.memory.array[where].astype(wide)
        total += numbers.reshape(-1, *[1] * len(shape.result))
    for buffer, where in zip(added, residuals, strict=True):
        total += buffer.memory.array[where].astype(wide)
    if ir.StringAttr(operation.activation).value == "relu":
        total = np.maximum(total, 0)
    result.memory.array[written] = total.astype(stored)


def _places(strides: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Where elements are, from the first one on."""
    indices = zip(np.indices(sizes, sparse=True), strides, strict=True)
    return sum((index * stride for index, stride in indices), np.zeros((), np.int64))


def _elsewhere(
    result: Buffer,
    written: np.ndarray,
    residual: Sequence[Buffer],
    places: Sequence[np.ndarray],
) -> list[tuple[Buffer, np.ndarray]]:
    """The residual, if it is not where the result is, element by element."""
    target = addresses_of(result, written)
    return [
        (buffer, where)
        for buffer, where in zip(residual, places, strict=True)
        if not np.array_equal(addresses_of(buffer, where), target)
    ]


def _by_filters(shape: ConvolutionShape, weights: np.ndarray) -> np.ndarray:
    """Weights as [filters, channels of a group, window]."""
    channels = shape.channels // shape.groups
    if not shape.channels_last:
        return weights.reshape(shape.filters, channels, *shape.window)
    lying = weights.reshape(shape.filters, *shape.window, channels)
    return np.moveaxis(lying, -1, 1)


def _sums(shape: ConvolutionShape, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """What windows of pictures [n, c, ...] are, weighted [k, c, ...]: [n, k, ...]."""
    around = [(0, 0), (0, 0), *((pad, pad) for pad in shape.pads)]
    x = np.pad(x, around)
    groups, filters = shape.groups, shape.filters // shape.groups
    by_group = w.reshape(groups, filters, *w.shape[1:])
    total = np.zeros((len(x), groups, filters, math.prod(shape.result)), x.dtype)
    for tap in product(*map(range, shape.window)):
        along = [
            slice(t * dilation, t * dilation + (count - 1) * step + 1, step)
            for t, dilation, count, step in zip(
                tap, shape.dilations, shape.result, shape.steps, strict=True
            )
        ]
        seen = x[(slice(None), slice(None), *along)]
        seen = seen.reshape(len(x), groups, shape.channels // groups, -1)
        total += np.einsum("gkc,ngcp->ngkp", by_group[(..., *tap)], seen)
    return total.reshape(len(x), shape.filters, *shape.result)
