"""Operations that move elements and compute none."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class ReshapeOp(Relax.Operation, name="reshape"):
    """The same elements, in the same row-major order, in another shape.

    Attributes:
        shape: the new dimensions, all known (no -1, no 0 for *keep*).
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    cases = (Case((2, 6), shape=(3, 4)), Case((6,), shape=(1, 2, 3)), Case((0, 3), shape=(3, 0)))

    @staticmethod
    def infer(x: RankedTensorType, shape: Sequence[Dim]) -> RankedTensorType:
        old = tensors.shape_of(x)
        if shapes.is_known_unequal(shapes.product(old), shapes.product(shape)):
            raise ValueError(
                f"cannot reshape {shapes.dims_to_text(old)} to {shapes.dims_to_text(shape)}"
            )
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        return x.reshape(shape)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]

        def body(*axes: Index) -> Scalar:
            flat: Index | int = 0
            for axis, dim in zip(axes, shape, strict=True):
                flat = axis + b.dim(dim) * flat
            where: list[Index | int] = []
            for dim in reversed(x.shape[1:]):
                where.append(flat % b.dim(dim))
                flat = flat // b.dim(dim)
            return x[tuple([flat, *reversed(where)][-x.rank :] if x.rank else ())]

        return b.compute(shape, body, dtype, "reshape")

    @onnx_rule("Reshape", since=5)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        shape = shapes.reshape(
            tensors.shape_of(x), node.dims(1), allowzero=bool(node.attr("allowzero", 0))
        )
        return ReshapeOp(x, shape=shape).y


class TransposeOp(Relax.Operation, name="transpose"):
    """Axes in another order: axis ``i`` of y is axis ``permutation[i]`` of x."""

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    permutation: DenseI64ArrayAttr

    cases = (
        Case((2, 3), permutation=(1, 0)),
        Case((2, 3, 5), permutation=(2, 0, 1)),
        Case((1, 17, 33), permutation=(0, 2, 1)),
    )

    @staticmethod
    def infer(x: RankedTensorType, permutation: Sequence[int]) -> RankedTensorType:
        shape = shapes.transposed(tensors.shape_of(x), tuple(permutation))
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, permutation: Sequence[int]) -> np.ndarray:
        return np.ascontiguousarray(x.transpose(permutation))

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        permutation = list(self.permutation)
        shape, dtype = b.results[0]

        def body(*axes: Index) -> Scalar:
            return x[tuple(axes[permutation.index(i)] for i in range(x.rank))]

        return b.compute(shape, body, dtype, "transpose")

    @onnx_rule("Transpose", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        backwards = list(reversed(range(x.type.rank)))
        return TransposeOp(x, permutation=node.attr("perm", backwards)).y
