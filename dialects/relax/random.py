"""Counter-based random numbers: functions of a seed and of the element's index.

Results are reproducible and independent of the number of threads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Attr, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RandomUniformOp"]

_F32, _UINT32, _INT64 = map(dtypes.dtype, ("float32", "uint32", "int64"))
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_GROUPS = 5  # of four rounds each
_MASK = (1 << 32) - 1

Word = Any  # an array of uint32, or a Scalar of a tensor program


class RandomUniformOp(Relax.Operation, name="random_uniform"):
    """Uniformly distributed random numbers in [0, 1), by Threefry-2x32 with 20 rounds.

    Attributes:
        shape: the shape of y; may be symbolic.
        seed: the seed, 64 bits.
        stream: selects an independent sequence of numbers for the same seed.
    Shapes:
        y: ``shape``, float32, multiples of 2^-24.
    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011; the counter
        is the row-major index of the element.
    """

    y: Result[RankedTensorType]
    shape: Attr
    seed: IntegerAttr
    stream: IntegerAttr

    argument_attributes = ("shape",)
    cases = (
        Case(shape=(3, 71), seed=5),
        Case(shape=(2, 1, 9), seed=-1, stream=3),
        Case(shape=(), seed=2**40),
        Case(shape=(0, 2)),
    )

    @staticmethod
    def infer(shape: Sequence[Dim], seed: int = 0, stream: int = 0) -> RankedTensorType:
        shapes.require_nonnegative(shape)
        return tensors.tensor_type(tuple(shape), _F32)

    @staticmethod
    def reference(shape: Sequence[int], seed: int = 0, stream: int = 0) -> np.ndarray:
        numbers = np.arange(np.prod(shape, dtype=np.int64))
        low, high = ((numbers >> bits & _MASK).astype(np.uint32) for bits in (0, 32))

        def word(value: int) -> np.ndarray:
            return np.full(numbers.shape, value, np.uint32)

        bits = _scrambled(low, high, _key(seed, stream), word)
        return ((bits >> 8) * np.float32(2**-24)).astype(np.float32).reshape(shape)

    def legalize(self, b: Builder) -> Buffer:
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        key = _key(attrs["seed"], attrs["stream"])

        def body(*axes: Index) -> Scalar:
            number = Index(Index.value_of(0))
            for axis, size in zip(axes, shape, strict=True):
                number = number * b.dim(size) + axis
            wide = Index(Index.value_of(number)).to_scalar(_INT64)
            low, high = (b.cast(wide >> bits, _UINT32) for bits in (0, 32))
            bits = _scrambled(low, high, key, lambda v: b.constant(v, _UINT32))
            return b.cast(bits >> 8, dtype) * 2.0**-24

        return b.compute(shape, body, dtype, "random_uniform")


def _key(seed: int, stream: int) -> tuple[int, int]:
    """The key of Threefry: two words from the seed and the stream."""
    return (seed ^ stream * 0x9E3779B9) & _MASK, (seed >> 32 ^ stream) & _MASK


# The following works on numpy arrays and on scalars of tensor programs alike.


def _scrambled(
    low: Word, high: Word, key: tuple[int, int], word: Callable[[int], Word]
) -> Word:
    """Threefry-2x32: 32 random bits for every counter."""
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    low, high = low + word(keys[0]), high + word(keys[1])
    for group in range(_GROUPS):
        for rotation in _ROTATIONS[group % 2]:
            low = low + high
            high = (high << word(rotation)) | (high >> word(32 - rotation))
            high = high ^ low
        low = low + word(keys[(group + 1) % 3])
        high = high + word((keys[(group + 2) % 3] + group + 1) & _MASK)
    return low
