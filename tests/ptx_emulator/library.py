"""Reference implementation of the library calls of a launch plan (cuBLASLt, cuDNN)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from relax_mlir.errors import EmulationError
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.matmul_descriptors import BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape
from tests.ptx_emulator.conversions import tf32_bits
from tests.ptx_emulator.memory import DeviceMemory
from tests.ptx_emulator.operands import DTYPES

__all__ = ["Library"]


@dataclass(frozen=True)
class _Elements:
    """A set of elements of an array.

    Attributes:
        array: that they are in; places: of them in it.
        address: of the array's first element.
    """

    array: np.ndarray
    places: np.ndarray
    address: int

    @property
    def values(self) -> np.ndarray:
        """Their values, in the accumulation type."""
        wide = np.float64 if self.array.dtype == np.float64 else np.float32
        return self.array[self.places].astype(wide)

    @property
    def addresses(self) -> np.ndarray:
        """Their addresses."""
        return (self.address + self.places * self.array.itemsize).reshape(-1)

    def write(self, values: np.ndarray) -> None:
        """Stores values, rounded to the element type."""
        self.array[self.places] = values.astype(self.array.dtype)


@dataclass(frozen=True)
class Library:
    """An emulated library of matmuls and convolutions.

    Attributes:
        device: the memory; address: where a pointer of the plan points to.
    """

    device: DeviceMemory
    address: Callable[[Pointer], int]

    def multiply(self, call: Matmul) -> None:
        """Computes a batched matmul with f32 accumulation, or f64 for f64 operands.

        Raises:
            EmulationError: a matrix is out of bounds, or the result overlaps an operand.
        """
        batch, rows, columns, terms = call.sizes
        lhs = self._matrices(call.lhs, batch, rows, terms)
        rhs = self._matrices(call.rhs, batch, terms, columns)
        result = self._matrices(call.result, batch, rows, columns)
        bias = []
        if call.bias is not None:
            lying = np.arange(columns)
            bias.append(self._elements(call.bias, call.result.element, lying))
        _check_apart(result, [lhs, rhs, *bias])
        factors = [_rounded(side.values, tf32=call.tf32) for side in (lhs, rhs)]
        total = np.matmul(*factors)
        for added in bias:
            total = total + added.values
        result.write(_activated(total, call.activation))

    def convolve(self, call: Convolution) -> None:
        """Computes a convolution with f32 accumulation, or f64 for f64 operands.

        Raises:
            EmulationError: it is not a convolution; an operand leaves its array; or the result
                lies in an operand in another way than where the residual is.
        """
        shape = call.shape
        try:
            shape.check()
        except ValueError as error:
            raise EmulationError(str(error)) from error

        def elements(pointer: Pointer, places: np.ndarray) -> _Elements:
            return self._elements(pointer, call.element, places)

        seen = (call.batch, shape.channels, *shape.image)
        image = elements(call.image, _places(shape.image_strides, seen))
        weights = elements(call.weights, np.arange(shape.weight_elements))
        made = (call.batch, shape.filters, *shape.result)
        lying = _places(shape.result_strides, made)
        result = elements(call.result, lying)
        added, read = [], [image, weights]
        if call.bias is not None:
            bias = elements(call.bias, np.arange(shape.filters))
            added.append(bias.values.reshape(-1, *[1] * len(shape.result)))
            read.append(bias)
        if call.residual is not None:
            residual = elements(call.residual, lying)
            added.append(residual.values)
            if not np.array_equal(residual.addresses, result.addresses):
                read.append(residual)
        _check_apart(result, read)
        x, w = (_rounded(side.values, tf32=call.tf32) for side in (image, weights))
        total = _sums(shape, x, _by_filters(shape, w))
        for numbers in added:
            total = total + numbers
        result.write(_activated(total, call.activation))

    def _matrices(
        self, matrix: BatchedMatrix, batch: int, rows: int, columns: int
    ) -> _Elements:
        number, row, column = np.indices((batch, rows, columns))
        if matrix.is_transposed:
            row, column = column, row
        places = number * matrix.step + row * matrix.leading + column
        return self._elements(matrix.pointer, matrix.element, places)

    def _elements(
        self, pointer: Pointer, element: str, places: np.ndarray
    ) -> _Elements:
        """The elements from a pointer on, all of which must be in bounds.

        Raises:
            EmulationError: one is out of bounds.
        """
        address = self.address(pointer)
        array = self.device.elements(address, DTYPES[element])
        if places.size and (places.min() < 0 or places.max() >= len(array)):
            wrong = int(places.min() if places.min() < 0 else places.max())
            raise EmulationError(f"element {wrong} of an array of {len(array)}")
        return _Elements(array, places, address)


def _check_apart(result: _Elements, read: Sequence[_Elements]) -> None:
    """Checks that results overlap neither each other nor any operand.

    Raises:
        EmulationError: they do.
    """
    written = result.addresses
    if len(np.unique(written)) != written.size:
        raise EmulationError("two results overlap")
    for other in read:
        if np.intersect1d(written, other.addresses).size:
            raise EmulationError("a result overlaps an operand")


def _rounded(values: np.ndarray, *, tf32: bool) -> np.ndarray:
    return tf32_bits(values).view(np.float32) if tf32 else values


def _activated(values: np.ndarray, activation: str) -> np.ndarray:
    return np.maximum(values, 0) if activation == "relu" else values


def _places(strides: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Offsets of strided elements from the first one."""
    indices = zip(np.indices(sizes, sparse=True), strides, strict=True)
    return sum((index * stride for index, stride in indices), np.zeros((), np.int64))


def _by_filters(shape: ConvolutionShape, weights: np.ndarray) -> np.ndarray:
    """Weights as [filters, channels per group, window]."""
    channels = shape.channels // shape.groups
    if not shape.channels_last:
        return weights.reshape(shape.filters, channels, *shape.window)
    lying = weights.reshape(shape.filters, *shape.window, channels)
    return np.moveaxis(lying, -1, 1)


def _sums(shape: ConvolutionShape, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Convolution of images [n, c, ...] with weights [k, c, ...]: [n, k, ...]."""
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
