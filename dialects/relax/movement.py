"""Operations that move elements and compute none."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.slicing import known_ints
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["BroadcastToOp", "ReshapeOp", "TileOp", "TransposeOp", "TriluOp"]


class ReshapeOp(Relax.Operation, name="reshape"):
    """The same elements, in the same row-major order, in another shape.

    Attributes:
        shape: the new dimensions, all known (no -1, no 0 for *keep*).
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    cases = (
        Case((2, 6), shape=(3, 4)),
        Case((6,), shape=(1, 2, 3)),
        Case((0, 3), shape=(3, 0)),
    )

    @staticmethod
    def infer(x: RankedTensorType, shape: Sequence[Dim]) -> RankedTensorType:
        old = tensors.shape_of(x)
        if shapes.is_known_unequal(shapes.product(old), shapes.product(shape)):
            raise ValueError(
                f"cannot reshape {shapes.dims_to_text(old)} to {shapes.dims_to_text(shape)}"
            )
        shapes.require_equal(shapes.product(old), shapes.product(shape))
        shapes.require_sizes(shape)
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

    @staticmethod
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

    @staticmethod
    @onnx_rule("Transpose", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        backwards = list(reversed(range(RankedTensorType(x.type).rank)))
        return TransposeOp(x, permutation=node.attr("perm", backwards)).y


class BroadcastToOp(Relax.Operation, name="broadcast_to"):
    """A tensor stretched to a shape: axes of size 1 are repeated, new ones put in front.

    Attributes:
        shape: the result's dimensions.
    Source: numpy.broadcast_to; ONNX Expand-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    cases = (
        Case((3, 1), shape=(3, 4)),
        Case((1, 5), shape=(2, 3, 5)),
        Case((), shape=(2, 3)),
        Case((2, 3), shape=(2, 3)),
        Case((1,), shape=(0,)),
        Case((1, 3, "bool"), shape=(2, 3)),
        Case((2, 1, "int64"), shape=(2, 17), low=-9, high=9),
    )

    @staticmethod
    def infer(x: RankedTensorType, shape: Sequence[Dim]) -> RankedTensorType:
        old = tensors.shape_of(x)
        shapes.require_sizes(shape)
        if shapes.broadcast(old, shape) != tuple(shape):
            raise ValueError(
                f"cannot broadcast {shapes.format_shape(old)} to {shapes.format_shape(shape)}"
            )
        return tensors.tensor_type(tuple(shape), tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        return np.broadcast_to(x, shape).copy()

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]
        new = len(shape) - x.rank

        def body(*axes: Index) -> Scalar:
            pairs = zip(axes[new:], x.shape, shape[new:], strict=True)
            return x[tuple(_stretched(b, *pair) for pair in pairs)]

        return b.compute(shape, body, dtype, "broadcast_to")

    @staticmethod
    @onnx_rule("Expand", since=8)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        shape = shapes.broadcast(tensors.shape_of(x), node.dims(1))
        return BroadcastToOp(x, shape=shape).y


def _stretched(b: Builder, axis: Index, size: Dim, to: Dim) -> "Index | int":
    """Where an operand of ``size`` is read for a point of ``to``."""
    if size == to:
        return axis
    # A symbolic size against a number is that number or 1: known when it runs.
    return 0 if size == 1 else axis.minimum(b.dim(size - 1))


class TileOp(Relax.Operation, name="tile"):
    """Copies of a tensor laid side by side.

    Attributes:
        repeats: how many along every axis.
    Source: ONNX Tile-13; numpy.tile with as many repeats as axes.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    repeats: Attr

    cases = (
        Case((2, 3), repeats=(2, 3)),
        Case((1, 5), repeats=(4, 1)),
        Case((3,), repeats=(0,)),
        Case((2, 1, 7), repeats=(1, 3, 5)),
        Case((3, "int64"), repeats=(4,), low=-9, high=9),
    )

    @staticmethod
    def infer(x: RankedTensorType, repeats: Sequence[Dim]) -> RankedTensorType:
        shape = tensors.shape_of(x)
        if len(repeats) != len(shape):
            raise ValueError(f"expected {len(shape)} repeats, got {len(repeats)}")
        if any(shapes.is_known_le(count, -1) for count in repeats):
            raise ValueError(f"expected repeats of 0 or more, got {list(repeats)}")
        shapes.require_sizes(repeats)
        tiled = tuple(dim * count for dim, count in zip(shape, repeats, strict=True))
        return tensors.tensor_type(tiled, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, repeats: Sequence[int]) -> np.ndarray:
        return np.tile(x, repeats)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        shape, dtype = b.results[0]

        def body(*axes: Index) -> Scalar:
            triples = zip(axes, x.shape, shape, strict=True)
            return x[
                tuple(a if old == new else a % b.dim(old) for a, old, new in triples)
            ]

        return b.compute(shape, body, dtype, "tile")

    @staticmethod
    @onnx_rule("Tile", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return TileOp(node.input(0), repeats=node.dims(1)).y


class TriluOp(Relax.Operation, name="trilu"):
    """The upper or lower triangle of every matrix; zeros elsewhere.

    Attributes:
        upper: which triangle is kept.
        k: the diagonal that ends it: 0 the main one, positive ones above.
    Shapes:
        x, y: [..., m, n].
    Source: ONNX Trilu-14.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    upper: BoolAttr
    k: IntegerAttr

    cases = (
        Case((4, 5), upper=True),
        Case((4, 5), upper=False),
        Case((2, 3, 3), upper=True, k=1),
        Case((2, 5, 3), upper=False, k=-2),
        Case((3, 4), upper=False, k=9),
        Case((0, 4), upper=True),
        Case((3, 3, "int64"), upper=True, k=-1, low=-9, high=9),
        Case((3, 3, "bool"), upper=False),
    )

    @staticmethod
    def infer(x: RankedTensorType, upper: bool = True, k: int = 0) -> RankedTensorType:
        if x.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {x.rank}")
        return x

    @staticmethod
    def reference(x: np.ndarray, upper: bool = True, k: int = 0) -> np.ndarray:
        return np.triu(x, k) if upper else np.tril(x, k)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        upper, k = self.upper.value, self.k.value

        def body(*axes: Index) -> Scalar:
            above = axes[-1] - axes[-2]
            kept = above >= k if upper else above <= k
            return b.select(kept, x[axes], b.constant(0, x.dtype))

        return b.compute(x.shape, body, x.dtype, "trilu")

    @staticmethod
    @onnx_rule("Trilu", since=14)
    def from_onnx(node: OnnxNode) -> ir.Value:
        (k,) = known_ints(node, 1) or (0,)
        return TriluOp(node.input(0), upper=bool(node.attr("upper", 1)), k=k).y
