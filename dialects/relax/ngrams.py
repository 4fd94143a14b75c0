"""Counts of n-grams (TF-IDF)."""

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["CountNgramsOp"]

_INT64 = dtypes.dtype("int64")


class CountNgramsOp(Relax.Operation, name="count_ngrams"):
    """The number of occurrences of each k-gram of a pool in every row.

    The elements of an occurrence are ``step`` apart: adjacent for step 1, every second one
    for step 2 (a skip-gram). Occurrences with any step from 1 to ``steps`` are counted.

    Attributes:
        steps: the largest step.
    Shapes:
        x: [n, c]; pool: [p, k], both integers of one type; y: [n, p], int64.
    Source: ONNX TfIdfVectorizer-9, mode ``TF``.
    """

    x: Operand[RankedTensorType]
    pool: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    steps: IntegerAttr

    reference_rate = 1e5  # a loop in Python
    cases = (
        Case((2, 9, "int64"), (3, 2, "int64"), steps=3, low=0, high=2),
        Case((3, 7, "int32"), (5, 1, "int32"), low=0, high=3),
        Case((1, 2, "int64"), (2, 3, "int64"), steps=2, low=0, high=1),
        Case((2, 0, "int64"), (2, 2, "int64"), low=0, high=1),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, pool: RankedTensorType, steps: int = 1
    ) -> RankedTensorType:
        if x.rank != 2 or pool.rank != 2:
            raise ValueError(f"expected ranks of 2, got {x.rank} and {pool.rank}")
        dtype, other = tensors.dtype_of(x), tensors.dtype_of(pool)
        if dtype != other or not dtype.is_integer:
            raise ValueError(f"expected integers of one type, got {dtype} and {other}")
        if not isinstance(tensors.shape_of(pool)[1], int) or steps < 1:
            raise ValueError("expected a known length and a step of 1 or more")
        shape = tensors.shape_of(x)[0], tensors.shape_of(pool)[0]
        return tensors.tensor_type(shape, _INT64)

    @staticmethod
    def reference(x: np.ndarray, pool: np.ndarray, steps: int = 1) -> np.ndarray:
        y = np.zeros((len(x), len(pool)), np.int64)
        length = pool.shape[1]
        for step in range(1, steps + 1):
            for first in range(x.shape[1] - (length - 1) * step):
                window = x[:, first : first + (length - 1) * step + 1 : step]
                y += (window[:, None] == pool).all(2)
        return y

    def legalize(self, b: Builder) -> Buffer:
        x, pool = b.inputs
        shape, dtype = b.results[0]
        size = b.dim(x.shape[1])
        *_, length = (n for n in pool.shape if isinstance(n, int))

        def matches(n: Index, p: Index, first: Index, step: Index) -> Scalar:
            last = first + (step + 1) * (length - 1)
            is_match = last < size
            for k in range(length):
                position = (first + (step + 1) * k).minimum(size - 1)
                is_match = is_match & x[n, position].equal(pool[p, k])
            return b.select(is_match, b.constant(1, dtype), b.constant(0, dtype))

        extents = [x.shape[1], self.steps.value]
        return b.reduce_over("add", shape, extents, matches, dtype, "count_ngrams")
