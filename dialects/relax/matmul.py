"""Matrix multiplication: matmul and dense layers."""

from typing import Any

import numpy as np
from mlir.ir import RankedTensorType, TypeAttr

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attribute_arguments import element_type
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_MIXED = (
    Case((3, 50, "float16"), (50, 7, "float16"), out_dtype=dtypes.dtype("float32")),
    Case((3, 5), (5, 7, "float16"), out_dtype=dtypes.dtype("float64")),
    Case((3, 50, "int8"), (50, 7, "int8"), out_dtype=dtypes.dtype("int32"), high=99),
    Case((3, 50, "uint8"), (50, 67, "int8"), out_dtype=dtypes.dtype("int32"), high=99),
    Case((3, 50), (50, 67, "int8"), out_dtype=dtypes.dtype("float32"), high=99),
)


class MatmulOp(Relax.Operation, name="matmul"):
    """Matrix multiplication over the last two axes: z = x1 @ x2, batch axes broadcast.

    f16 and bf16 are accumulated in f32.

    Attributes:
        out_dtype: the element type of z, to which operands are converted before they are
            multiplied; None for the common type of the operands.
    Shapes:
        x1: [..., m, k]; x2: [..., k, n]; z: [..., m, n]. A rank-1 operand is a row (x1) or
        a column (x2), and its axis is absent from z.
    Source: numpy.matmul; ONNX MatMul-13.
    """

    x1: Operand[RankedTensorType]
    x2: Operand[RankedTensorType]
    z: Result[RankedTensorType]
    out_dtype: TypeAttr | None

    reference_rate = 5e8
    reference_scratch_bytes = 0  # BLAS
    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((3, 5), (5, 7)),
        Case((1, 40), (40, 65)),
        Case((2, 3, 5), (5, 4)),
        Case((2, 1, 3, 5), (4, 5, 6)),
        Case((5,), (5, 3)),
        Case((2, 4, 5), (5,)),
        Case((0, 5), (5, 3)),
        Case((3, 0), (0, 2)),
        Case((67, 129), (129, 98)),
        Case((3, 5, "float64"), (5, 7, "float64")),
        Case((3, 50, "float16"), (50, 7, "float16")),
        Case((3, 50, "bfloat16"), (50, 7, "bfloat16")),
        Case((2, 3, 5, "int64"), (5, 4, "int64"), low=-9, high=9),
        *_MIXED,
    )

    @staticmethod
    def infer(
        x1: RankedTensorType, x2: RankedTensorType, out_dtype: DType | None = None
    ) -> RankedTensorType:
        shape = shapes.matmul(tensors.shape_of(x1), tensors.shape_of(x2))
        return tensors.tensor_type(shape, _result_dtype(x1, x2, out_dtype))

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "out_dtype": element_type(attrs.get("out_dtype"))}

    @staticmethod
    def reference(
        x1: np.ndarray, x2: np.ndarray, out_dtype: DType | None
    ) -> np.ndarray:
        out = out_dtype or dtypes.from_numpy(x1.dtype)
        wide = wide_type(out).numpy
        return np.matmul(x1.astype(wide), x2.astype(wide)).astype(out.numpy)

    def legalize(self, b: Builder) -> Buffer:
        x, y = b.inputs
        shape, dtype = b.results[0]
        wide = wide_type(dtype)
        has_row, has_column = x.rank > 1, y.rank > 1
        batch = len(shape) - has_row - has_column

        def body(*axes: Index) -> Scalar:
            k = axes[-1]
            row = (axes[batch], k) if has_row else (k,)
            column = (k, axes[batch + has_row]) if has_column else (k,)
            lhs = x[_batch_indices(x, axes[:batch], 2) + row]
            rhs = y[_batch_indices(y, axes[:batch], 2) + column]
            return b.cast(lhs, wide) * b.cast(rhs, wide)

        inner = shapes.unify(x.shape[-1], y.shape[-2] if has_column else y.shape[0])
        return b.reduce_over("add", shape, [inner], body, dtype, "matmul")


class DenseOp(Relax.Operation, name="nn_dense"):
    """A dense layer without bias: z = data @ weight^T.

    f16 and bf16 are accumulated in f32.

    Attributes:
        out_dtype: as for ``matmul``.
    Shapes:
        data: [..., k]; weight: [n, k]; z: [..., n].
    """

    data: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    z: Result[RankedTensorType]
    out_dtype: TypeAttr | None

    reference_rate = 5e8
    reference_scratch_bytes = 0  # BLAS
    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((3, 5), (7, 5)),
        Case((1, 40), (65, 40)),
        Case((5,), (3, 5)),
        Case((2, 3, 5), (4, 5)),
        Case((0, 5), (3, 5)),
        Case((3, 0), (2, 0)),
        Case((67, 129), (98, 129)),
        Case((3, 50, "float16"), (7, 50, "float16")),
        Case((3, 5, "int64"), (4, 5, "int64"), low=-9, high=9),
        Case((3, 50, "int8"), (7, 50, "int8"), out_dtype=dtypes.dtype("int32")),
    )

    @staticmethod
    def infer(
        data: RankedTensorType,
        weight: RankedTensorType,
        out_dtype: DType | None = None,
    ) -> RankedTensorType:
        shape, rows = tensors.shape_of(data), tensors.shape_of(weight)
        if not shape or len(rows) != 2:
            given = f"{shapes.format_shape(shape)} and {shapes.format_shape(rows)}"
            raise ValueError(f"expected data [..., k] and weight [n, k], got {given}")
        shapes.unify(shape[-1], rows[1])
        return tensors.tensor_type(
            (*shape[:-1], rows[0]), _result_dtype(data, weight, out_dtype)
        )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        return {**attrs, "out_dtype": element_type(attrs.get("out_dtype"))}

    @staticmethod
    def reference(
        data: np.ndarray, weight: np.ndarray, out_dtype: DType | None
    ) -> np.ndarray:
        return MatmulOp.reference(data, weight.T, out_dtype)

    def legalize(self, b: Builder) -> Buffer:
        data, weight = b.inputs
        shape, dtype = b.results[0]
        wide = wide_type(dtype)

        def body(*axes: Index) -> Scalar:
            *row, column, k = axes
            lhs, rhs = data[(*row, k)], weight[column, k]
            return b.cast(lhs, wide) * b.cast(rhs, wide)

        inner = shapes.unify(data.shape[-1], weight.shape[1])
        return b.reduce_over("add", shape, [inner], body, dtype, "dense")


def _result_dtype(
    x1: RankedTensorType, x2: RankedTensorType, out_dtype: DType | None
) -> DType:
    """The element type of a matmul.

    Raises:
        ValueError: the types of the operands differ, and ``out_dtype`` is None.
    """
    lhs, rhs = tensors.dtype_of(x1), tensors.dtype_of(x2)
    if out_dtype is None and lhs != rhs:
        raise ValueError(f"operands must have one element type, got {lhs} and {rhs}")
    return out_dtype or lhs


def _batch_indices(
    buffer: Buffer, axes: tuple[Index, ...], matrix_rank: int
) -> "tuple[Index | int, ...]":
    """The batch indices of an operand, whose batch axes are broadcast to ``axes``."""
    own = buffer.shape[: max(0, buffer.rank - matrix_rank)]
    tail = axes[len(axes) - len(own) :] if own else ()
    return tuple(0 if dim == 1 else axis for dim, axis in zip(own, tail, strict=True))
