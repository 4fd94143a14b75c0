"""Matrix products."""

import numpy as np
from mlir import ir
from mlir.ir import RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class MatmulOp(Relax.Operation, name="matmul"):
    """Matrix product over the last two axes, batches broadcast as numpy does.

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

    reference = staticmethod(np.matmul)

    def legalize(self, b: Builder) -> Buffer:
        x, y = b.buffer(self.x), b.buffer(self.y)
        shape = tensors.shape_of(self.infer_program(x, y))
        has_row, has_column = x.rank > 1, y.rank > 1
        batch = len(shape) - has_row - has_column

        def body(*axes: Index) -> Scalar:
            k = axes[-1]
            row = (axes[batch], k) if has_row else (k,)
            column = (k, axes[batch + has_row]) if has_column else (k,)
            return (
                x[_batch(x, axes[:batch], 2) + row]
                * y[_batch(y, axes[:batch], 2) + column]
            )

        return b.reduce_over("add", shape, [x.shape[-1]], body, x.dtype, "matmul")

    @classmethod
    def infer_program(cls, x: Buffer, y: Buffer) -> RankedTensorType:
        """The result type in the symbols of the tensor program."""
        return cls.infer(*(tensors.tensor_type(v.shape, v.dtype) for v in (x, y)))

    @onnx_rule("MatMul", since=9)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return MatmulOp(node.input(0), node.input(1)).z


def _batch(
    buffer: Buffer, axes: tuple[Index, ...], matrix_rank: int
) -> "tuple[Index | int, ...]":
    """Where the batch axes read an operand that may have fewer, or size 1."""
    own = buffer.shape[: max(0, buffer.rank - matrix_rank)]
    tail = axes[len(axes) - len(own) :] if own else ()
    return tuple(0 if dim == 1 else axis for dim, axis in zip(own, tail, strict=True))
