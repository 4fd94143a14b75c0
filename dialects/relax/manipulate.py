"""Data movement: reshape, transpose, broadcast, flip and pixel shuffle."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim, Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = [
    "BroadcastToOp",
    "FlipOp",
    "PermuteDimsOp",
    "PixelShuffleOp",
    "ReshapeOp",
    "read_row_major",
]


class ReshapeOp(Relax.Operation, name="reshape"):
    """The elements of x, in row-major order, in another shape.

    Attributes:
        shape: the shape of y; may be symbolic. On construction, one size may be -1 (inferred)
            and sizes may be 0 (copied from x on the same axis, unless x is empty and there
            is no -1).
    Source: numpy.reshape; ONNX Reshape-14.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    argument_attributes = ("shape",)
    cases = (
        Case((2, 6), shape=(3, 4)),
        Case((6,), shape=(1, 2, 3)),
        Case((0, 3), shape=(3, 0)),
        Case((2, 3, 5), shape=(0, -1)),
        Case((), shape=(1, 1)),
    )

    def __init__(self, *operands: ir.Value, **attrs: Any) -> None:  # Any: see the base
        if attrs.get("results") is None and len(operands) == 1 and "shape" in attrs:
            attrs["shape"] = _resolved(tensors.shape_of(operands[0]), attrs["shape"])
        super().__init__(*operands, **attrs)

    @staticmethod
    def infer(x: RankedTensorType, shape: Sequence[Dim]) -> RankedTensorType:
        old = tensors.shape_of(x)
        if shapes.is_known_unequal(shapes.product(old), shapes.product(shape)):
            raise ValueError(
                f"cannot reshape {shapes.dims_to_text(old)} to {shapes.dims_to_text(shape)}"
            )
        shapes.require_equal(shapes.product(old), shapes.product(shape))
        shapes.require_nonnegative(shape)
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        return x.reshape(_resolved(x.shape, shape))

    def legalize(self, b: Builder) -> Buffer:
        return read_row_major(b, b.buffer(self.x), "reshape")

    @staticmethod
    @onnx_rule("Reshape", since=5)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        shape = shapes.reshape(
            tensors.shape_of(x),
            node.dims(1),
            allowzero=node.flag("allowzero", default=False),
        )
        return ReshapeOp(x, shape=shape, results=[ReshapeOp.infer(x.type, shape)]).y


def _resolved(old: Sequence[Dim], shape: Sequence[Dim]) -> Shape:
    """``shape`` with -1 and 0 resolved; 0 is a size if the tensor is empty without a -1."""
    is_empty = 0 in old and -1 not in shape
    return shapes.reshape(old, shape, allowzero=is_empty)


def read_row_major(b: Builder, x: Buffer, name: str) -> Buffer:
    """The elements of ``x``, in row-major order, in the shape of the builder's result."""
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

    return b.compute(shape, body, dtype, name)


class PermuteDimsOp(Relax.Operation, name="permute_dims"):
    """Transposes a tensor: permutes its axes.

    Attributes:
        axes: axis ``i`` of y is axis ``axes[i]`` of x; negative ones count from the end.
            None for the reverse order.
    Source: numpy.transpose; ONNX Transpose-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axes: DenseI64ArrayAttr | None

    cases = (
        Case((2, 3), axes=(1, 0)),
        Case((2, 3, 5), axes=(2, 0, 1)),
        Case((2, 3, 5), axes=(-2, -1, 0)),
        Case((1, 17, 33), axes=(0, 2, 1)),
        Case((2, 3, 5)),
    )

    @classmethod
    def program_name(cls) -> str:
        return "transpose"

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation of axes, all counted from the front."""
        return _order(self.python_attrs()["axes"], len(self.x.type.shape))

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int] | None = None
    ) -> RankedTensorType:
        shape = shapes.transposed(tensors.shape_of(x), _order(axes, x.rank))
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    def reference(x: np.ndarray, axes: Sequence[int] | None = None) -> np.ndarray:
        return np.ascontiguousarray(x.transpose(axes))

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.x)
        order = self.order
        shape, dtype = b.results[0]

        def body(*axes: Index) -> Scalar:
            return x[tuple(axes[order.index(i)] for i in range(x.rank))]

        return b.compute(shape, body, dtype, "transpose")

    @staticmethod
    @onnx_rule("Transpose", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        backwards = list(reversed(range(RankedTensorType(x.type).rank)))
        return PermuteDimsOp(x, axes=node.attr("perm", backwards)).y


def _order(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(reversed(range(rank)))
    return tuple(axis + rank if -rank <= axis < 0 else axis for axis in axes)


class BroadcastToOp(Relax.Operation, name="broadcast_to"):
    """Broadcasts a tensor to a shape: repeats axes of size 1 and adds leading axes.

    Attributes:
        shape: the shape of y; may be symbolic.
    Source: numpy.broadcast_to; ONNX Expand-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    shape: Attr

    argument_attributes = ("shape",)
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
        shapes.require_nonnegative(shape)
        shapes.broadcast_into(shape, old)
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
            return x[tuple(_broadcast_index(b, *pair) for pair in pairs)]

        return b.compute(shape, body, dtype, "broadcast_to")

    @staticmethod
    @onnx_rule("Expand", since=8)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x = node.input(0)
        shape = shapes.broadcast(tensors.shape_of(x), node.dims(1))
        return BroadcastToOp(x, shape=shape).y


def _broadcast_index(b: Builder, axis: Index, size: Dim, to: Dim) -> "Index | int":
    """The index along an axis of ``size`` that is broadcast to ``to``."""
    if size == to:
        return axis
    # A symbolic size is either 1 or the same as `to`, which is decided at run time.
    return 0 if size == 1 else axis.minimum(b.dim(size - 1))


class FlipOp(Relax.Operation, name="flip"):
    """Reverses the elements along one axis.

    Attributes:
        axis: negative ones count from the end.
    Source: numpy.flip.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((5,), axis=0),
        Case((2, 3, 17), axis=-1),
        Case((0, 4), axis=0),
        Case((3, 2, "int64"), axis=0, low=-9, high=9),
    )

    @staticmethod
    def infer(data: RankedTensorType, axis: int) -> RankedTensorType:
        shapes.check_axis(axis, data.rank)
        return data

    @staticmethod
    def reference(data: np.ndarray, axis: int) -> np.ndarray:
        return np.flip(data, axis).copy()

    def legalize(self, b: Builder) -> Buffer:
        data = b.buffer(self.data)
        shape, dtype = b.results[0]
        axis = self.axis.value % data.rank
        last = b.dim(shape[axis] - 1)

        def body(*axes: Index) -> Scalar:
            return data[(*axes[:axis], last - axes[axis], *axes[axis + 1 :])]

        return b.compute(shape, body, dtype, "flip")


class PixelShuffleOp(Relax.Operation, name="nn_pixel_shuffle"):
    """Pixel shuffle: rearranges blocks of r * r channels into r x r blocks of pixels.

    Attributes:
        upscale_factor: r, the factor of height and width.
    Shapes:
        data: [..., c * r * r, h, w]; y: [..., c, h * r, w * r].
    Source: Shi et al., Real-Time Single Image and Video Super-Resolution, 2016.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    upscale_factor: IntegerAttr

    cases = (
        Case((1, 8, 3, 4), upscale_factor=2),
        Case((9, 2, 1), upscale_factor=3),
        Case((2, 3, 4, 2, 2), upscale_factor=1),
    )

    @staticmethod
    def infer(data: RankedTensorType, upscale_factor: int) -> RankedTensorType:
        if data.rank < 3 or upscale_factor < 1:
            raise ValueError(
                "expected rank 3 or more and a factor of 1 or more, got rank "
                f"{data.rank} and factor {upscale_factor}"
            )
        *outer, c, h, w = tensors.shape_of(data)
        block = upscale_factor * upscale_factor
        shapes.require_multiple(c, block, "channels")
        sizes = (shapes.floordiv(c, block), h * upscale_factor, w * upscale_factor)
        return tensors.tensor_type((*outer, *sizes), tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, upscale_factor: int) -> np.ndarray:
        r = upscale_factor
        *outer, c, h, w = data.shape
        blocks = data.reshape(-1, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
        return blocks.reshape(*outer, c // (r * r), h * r, w * r)

    def legalize(self, b: Builder) -> Buffer:
        data, r = b.buffer(self.data), self.upscale_factor.value
        shape, dtype = b.results[0]

        def body(*axes: Index) -> Scalar:
            *outer, c, h, w = axes
            channel = c * (r * r) + (h % r * r + w % r)
            return data[(*outer, channel, h // r, w // r)]

        return b.compute(shape, body, dtype, "pixel_shuffle")
