"""Constants that are computed from others when a model is loaded, so that files hold them once.

Kernels read weights in orders of their own, and Winograd convolutions four times as many
numbers. A derivation states how such a constant is computed from another one: it is data,
which the native runtime interprets (``native/derived_constants.cc``), also in exported
libraries, where several variants of the code need different orders.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from relax_mlir.runtime import cpu

__all__ = [
    "Derivation",
    "PaddedCopy",
    "Transform",
    "derivation_of_fields",
    "derive",
    "with_derived",
]

_MAX_RANK = 12  # of abi.h
_MAX_TRANSFORM = 8  # of abi.h
_MAX_NUMBER = (
    1 << 48
)  # so that their products are 64-bit integers, for the native runtime
_MAX_GROWTH = 64  # bytes per byte of the source: packing pads single columns to panels


@dataclass(frozen=True)
class PaddedCopy:
    """The elements of another constant in another order, padded with zeros.

    The element at the indices *i* is that of the source at the coordinates sum(*factor* *
    *i*) over the dimensions of each axis, or zero where a coordinate is not below its extent.

    Attributes:
        source: the key of the other constant.
        axes: extent and stride, in elements, of each axis of the source.
        dims: size, axis and factor of each dimension of the result.
    """

    source: str
    axes: tuple[tuple[int, int], ...]
    dims: tuple[tuple[int, int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(size for size, _, _ in self.dims)

    def numbers(self, element_bytes: int) -> list[int]:
        """The encoding of ``abi.h``."""
        axes = [number for axis in self.axes for number in axis]
        dims = [number for dim in self.dims for number in dim]
        return [0, element_bytes, len(self.axes), *axes, len(self.dims), *dims]

    def check(self, source: np.ndarray) -> None:
        """Check that only elements of the source are read.

        Raises:
            ValueError: others would be, or a number is negative or too large.
        """
        numbers = [n for part in (*self.axes, *self.dims) for n in part]
        is_small = (
            max(len(self.axes), len(self.dims)) <= _MAX_RANK
            and max(numbers, default=0) <= _MAX_NUMBER
            and sum((size - 1) * factor for size, _, factor in self.dims) <= _MAX_NUMBER
        )
        is_empty = any(extent == 0 for extent, _ in self.axes)
        last = sum((extent - 1) * stride for extent, stride in self.axes)
        are_known = all(
            size >= 0 and factor >= 0 and 0 <= axis < len(self.axes)
            for size, axis, factor in self.dims
        )
        is_inside = is_empty or last < source.size
        are_forward = all(min(axis) >= 0 for axis in self.axes)
        is_element = source.itemsize in (1, 2, 4, 8)
        if not (is_small and are_known and is_inside and are_forward and is_element):
            raise ValueError(f"no copy of {source.size} elements: {self}")


@dataclass(frozen=True)
class Transform:
    """*M* *s* *M*^T of another constant *s* of float32, along its first two dimensions.

    Attributes:
        source: the key of the other constant, of the shape [columns, columns, ...].
        matrix: *M*, of float64, by rows.
        rest: the shape of the other dimensions.
    """

    source: str
    matrix: tuple[tuple[float, ...], ...]
    rest: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (len(self.matrix), len(self.matrix), *self.rest)

    def numbers(self, element_bytes: int) -> list[int]:
        """The encoding of ``abi.h``."""
        flat = [value for row in self.matrix for value in row]
        bits = struct.unpack(f"={len(flat)}q", struct.pack(f"={len(flat)}d", *flat))
        return [1, len(self.matrix), len(self.matrix[0]), math.prod(self.rest), *bits]

    def check(self, source: np.ndarray) -> None:
        """Check that the matrix fits the source.

        Raises:
            ValueError: it does not.
        """
        widths = {len(row) for row in self.matrix}
        is_small = 0 < len(self.matrix) <= _MAX_TRANSFORM and len(widths) == 1
        columns = min(widths, default=0)
        expected = (columns, columns, *self.rest)
        if not is_small or not 0 < columns <= _MAX_TRANSFORM:
            raise ValueError(f"no matrix: {self}")
        if source.shape != expected or source.dtype != np.float32:
            raise ValueError(
                f"no source of the transform: {source.dtype}{source.shape}"
            )


Derivation: TypeAlias = PaddedCopy | Transform


def derivation_of_fields(fields: Mapping[str, Any]) -> Derivation:
    """A derivation from its fields in JSON.

    Raises:
        KeyError, TypeError, ValueError: the fields are those of no derivation.
    """
    source = str(fields["source"])
    if "matrix" in fields:
        matrix = tuple(tuple(map(float, row)) for row in fields["matrix"])
        return Transform(source, matrix, tuple(map(int, fields["rest"])))
    axes = tuple((int(extent), int(stride)) for extent, stride in fields["axes"])
    dims = tuple((int(s), int(a), int(f)) for s, a, f in fields["dims"])
    return PaddedCopy(source, axes, dims)


def derive(derivation: Derivation, source: np.ndarray) -> np.ndarray:
    """Compute a constant from its source.

    Raises:
        ValueError: the derivation does not fit the source.
        MemoryError: there is not enough memory.
    """
    source = np.asarray(source, order="C")
    derivation.check(source)
    count = math.prod(derivation.shape)
    if count * source.itemsize > _MAX_GROWTH * max(source.nbytes, 64):
        raise ValueError(f"more than {_MAX_GROWTH} times its source: {derivation}")
    result = np.empty(derivation.shape, source.dtype)
    numbers = np.array(derivation.numbers(source.itemsize), np.int64)
    cpu.derive_constant(numbers, source, result)
    return result


def with_derived(
    constants: Mapping[str, np.ndarray], derivations: Mapping[str, Derivation]
) -> dict[str, np.ndarray]:
    """Constants with those that are derived from them, in the order of the derivations.

    Raises:
        ValueError: a source is missing, or does not fit.
        MemoryError: there is not enough memory.
    """
    complete = dict(constants)
    for key, derivation in derivations.items():
        if derivation.source not in complete:
            raise ValueError(f"constant `{key}`: no source `{derivation.source}`")
        complete[key] = derive(derivation, complete[derivation.source])
    return complete
