"""Matrix products."""

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class MatmulOp(Relax.Operation, name="matmul"):
    """Matrix product over the last two axes, batches broadcast as numpy does.

    Sums of f16 and bf16 are kept in f32.

    Shapes:
        x: [..., m, k]; y: [..., k, n]; z: [..., m, n]. A rank-1 operand is a row (x) or
        a column (y), and its axis is absent from z.
    Source: ONNX MatMul-13.
    """

    x: Operand[RankedTensorType]
    y: Operand[RankedTensorType]
    z: Result[RankedTensorType]

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
    )

    @staticmethod
    def infer(x: RankedTensorType, y: RankedTensorType) -> RankedTensorType:
        if tensors.dtype_of(x) != tensors.dtype_of(y):
            raise ValueError(
                f"operands must have one element type, got {tensors.dtype_of(x)} "
                f"and {tensors.dtype_of(y)}"
            )
        shape = shapes.matmul(tensors.shape_of(x), tensors.shape_of(y))
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        is_half = dtypes.from_numpy(x.dtype).is_float and x.itemsize < 4
        wide = np.dtype(np.float32) if is_half else x.dtype
        return np.matmul(x.astype(wide), y.astype(wide)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, y = b.inputs
        shape, dtype = b.results[0]
        has_row, has_column = x.rank > 1, y.rank > 1
        batch = len(shape) - has_row - has_column

        def body(*axes: Index) -> Scalar:
            k = axes[-1]
            row = (axes[batch], k) if has_row else (k,)
            column = (k, axes[batch + has_row]) if has_column else (k,)
            left = x[_batch(x, axes[:batch], 2) + row]
            right = y[_batch(y, axes[:batch], 2) + column]
            return b.wide(left) * b.wide(right)

        inner = shapes.unify(x.shape[-1], y.shape[-2] if has_column else y.shape[0])
        return b.reduce_over("add", shape, [inner], body, dtype, "matmul")

    @staticmethod
    @onnx_rule("MatMul", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return MatmulOp(node.input(0), node.input(1)).z


def _batch(
    buffer: Buffer, axes: tuple[Index, ...], matrix_rank: int
) -> "tuple[Index | int, ...]":
    """Where the batch axes read an operand that may have fewer, or size 1."""
    own = buffer.shape[: max(0, buffer.rank - matrix_rank)]
    tail = axes[len(axes) - len(own) :] if own else ()
    return tuple(0 if dim == 1 else axis for dim, axis in zip(own, tail, strict=True))
