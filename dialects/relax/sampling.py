"""Sampling from categorical distributions, given uniform random numbers."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from mlir.ir import RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, axis_range
from relax_mlir.dialects.op_interface import Case, IndexCase
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import (
    check_not_empty,
    clamp_indices,
    emit_clamped_index,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["MultinomialFromUniformOp"]

_INT64 = dtypes.dtype("int64")


class MultinomialFromUniformOp(Relax.Operation, name="multinomial_from_uniform"):
    """Samples of categorical distributions by inversion of the cumulative distribution.

    The sample is the first column whose cumulative probability (in f32) exceeds the uniform
    random number, or the last column if none does.

    Attributes:
        dtype: the integer type of y.
    Shapes:
        prob: [batch, columns], floats; uniform_sample: [n, 1], floats from 0 to 1;
        sample_indices: [n, 1], integers, the row of prob for every sample, where negative
        ones count from the end; y: [n, 1], column numbers.
    """

    prob: Operand[RankedTensorType]
    uniform_sample: Operand[RankedTensorType]
    sample_indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    dtype: TypeAttr

    cases = (
        Case((1, 5), (7, 1), (7, 1, "int64"), low=0.0, high=0.4),
        Case(
            (2, 4),
            (6, 1),
            (6, 1, "int64"),
            dtype=dtypes.dtype("int32"),
            low=0.0,
            high=1.0,
        ),
        Case((3, 1), (2, 1), (2, 1, "int32"), low=0.0, high=2.0),
        Case((3, 4), (9, 1), (9, 1, "int64"), low=0, high=6),
        IndexCase((3, 4), (9, 1), (9, 1, "int32"), low=0, high=2),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "sample_indices": IndexOperand(
            lambda prob, sample, indices, dtype: axis_range(prob, 0),
            "clamps: picks the nearest row",
        )
    }

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "dtype": element_type(attrs.get("dtype")) or _INT64}

    @staticmethod
    def infer(
        prob: RankedTensorType,
        uniform_sample: RankedTensorType,
        sample_indices: RankedTensorType,
        dtype: DType = _INT64,
    ) -> RankedTensorType:
        operands = (prob, uniform_sample, sample_indices)
        names = ("prob", "uniform_sample", "sample_indices")
        for name, operand in zip(names, operands, strict=True):
            _check_operand(name, operand)
        (count, one), (rows, other) = map(tensors.shape_of, operands[1:])
        shapes.unify(one, 1)
        shapes.unify(other, 1)
        check_not_empty(tensors.shape_of(prob)[0], (rows,))
        return tensors.tensor_type((shapes.unify(count, rows), one), dtype)

    @staticmethod
    def reference(
        prob: np.ndarray,
        uniform_sample: np.ndarray,
        sample_indices: np.ndarray,
        dtype: DType = _INT64,
    ) -> np.ndarray:
        rows = clamp_indices(sample_indices[:, 0], len(prob))
        sums = np.cumsum(prob, axis=1, dtype=np.float32)[rows]
        above = sums > uniform_sample
        last = prob.shape[1] - 1
        chosen = np.where(above.any(1), above.argmax(1), last)
        return chosen[:, None].astype(dtype.numpy)

    def legalize(self, b: Builder) -> Buffer:
        prob, uniform, rows = b.inputs
        shape, out = b.results[0]
        columns, wide = prob.shape[1], dtypes.dtype("float32")

        def weight(i: Index, j: Index, k: Index) -> Scalar:
            value = b.cast(prob[i, k], wide)
            return b.select(k <= j, value, b.constant(0, wide))

        sums = b.reduce_over("add", prob.shape, [columns], weight, wide, "sums")

        def is_passed(i: Index, j: Index, k: Index) -> Scalar:
            row = emit_clamped_index(b, rows[i, j], prob.shape[0])
            is_below = sums[row, k] <= b.cast(uniform[i, j], wide)
            is_passed = is_below & (k + 1 < b.dim(columns))
            return b.select(is_passed, b.constant(1, out), b.constant(0, out))

        return b.reduce_over("add", shape, [columns], is_passed, out, "chosen")


def _check_operand(name: str, operand: RankedTensorType) -> None:
    """Checks that an operand is a matrix of floats, or of integers for row indices.

    Raises:
        ValueError: the rank or the element type is another one.
    """
    if operand.rank != 2:
        raise ValueError(f"{name}: expected rank 2, got {operand.rank}")
    found, wants_integers = tensors.dtype_of(operand), name == "sample_indices"
    if wants_integers != found.is_integer:
        kind = "integers" if wants_integers else "floats"
        raise ValueError(f"{name}: expected {kind}, got {found}")
