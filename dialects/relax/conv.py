"""Convolutions."""

from collections.abc import Sequence

import numpy as np
from mlir.ir import DenseI64ArrayAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.channels import Channels, Point
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.padding import read_padded
from relax_mlir.dialects.relax.windows import Window, taps
from relax_mlir.dialects.shapes import Shape
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ConvOp"]


class ConvOp(Relax.Operation, name="conv"):
    """Convolution without bias (a sum of products over sliding windows), in 1 to 3-D.

    Attributes:
        strides, dilations: one number per spatial axis; none at all stands for 1s.
        pads: zeros before every spatial axis, then after every one; none for 0s.
        groups: input and output channels are cut into so many parts, which do not see
            each other.
    Shapes:
        x: [n, c, spatial...]; weight: [o, c / groups, kernel...];
        y: [n, o, spatial...], sizes by :func:`shapes.conv_output`.
    Source: ONNX Conv-11, without its bias.
    """

    x: Operand[RankedTensorType]
    weight: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    strides: DenseI64ArrayAttr
    pads: DenseI64ArrayAttr
    dilations: DenseI64ArrayAttr
    groups: IntegerAttr

    tolerance = 1e-4  # f32 sums in another order
    cases = (
        Case((1, 3, 7, 5), (2, 3, 3, 3)),
        Case((2, 3, 8, 8), (5, 3, 3, 3), pads=(1, 1, 1, 1)),
        Case((1, 4, 9, 7), (6, 4, 1, 1), strides=(2, 2)),
        Case((1, 3, 11, 13), (7, 3, 3, 5), strides=(2, 3), pads=(0, 2, 1, 1)),
        Case((1, 2, 9, 9), (3, 2, 3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
        Case((1, 5, 7, 7), (5, 1, 3, 3), pads=(1, 1, 1, 1), groups=5),
        Case((2, 4, 6, 5), (8, 1, 3, 3), strides=(2, 1), groups=4),
        Case((1, 6, 5, 5), (4, 3, 3, 3), pads=(1, 1, 1, 1), groups=2),
        Case((2, 3, 17), (4, 3, 5), strides=(2,), pads=(2, 2)),
        Case((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), pads=(0, 1, 1, 1, 1, 0)),
        Case((0, 3, 5, 5), (2, 3, 3, 3)),
        Case((1, 1, 1, 1), (1, 1, 1, 1)),
        Case((1, 3, 8, 5, "float64"), (2, 3, 3, 3, "float64"), pads=(1, 1, 1, 1)),
        Case((1, 3, 6, 5, "float16"), (2, 3, 3, 3, "float16"), pads=(1, 1, 1, 1)),
        Case((1, 16, 14, 14), (32, 16, 3, 3), pads=(1, 1, 1, 1)),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        weight: RankedTensorType,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
    ) -> RankedTensorType:
        n, c, *sizes = conv_shape(x, weight)
        o, per_group, *kernel = tensors.shape_of(weight)
        if shapes.is_known_unequal(c, per_group * groups):
            raise ValueError(
                f"weight expects {per_group * groups} input channels, got {c}"
            )
        shapes.require_equal(c, per_group * groups)
        if shapes.mod(o, groups) != 0:
            raise ValueError(f"{o} output channels do not divide into {groups} groups")
        window = Window.of(kernel, strides, pads, dilations)
        return tensors.tensor_type(
            (n, o, *window.conv_sizes(sizes)), tensors.dtype_of(x)
        )

    @staticmethod
    def reference(
        x: np.ndarray,
        weight: np.ndarray,
        strides: Sequence[int] = (),
        pads: Sequence[int] = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
    ) -> np.ndarray:
        window = Window.of(weight.shape[2:], strides, pads, dilations)
        sizes = window.counts(x.shape[2:])
        w = grouped(weight.astype(np.float64), 0, groups)
        y = np.zeros((x.shape[0], groups, w.shape[1], *sizes))
        for tap, read in taps(x.astype(np.float64), window, sizes, 0.0):
            y += np.einsum(
                "goc,ngc...->ngo...",
                w[(..., *tap)],
                grouped(read, 1, groups),
                optimize=True,
            )
        return y.reshape(x.shape[0], len(weight), *sizes).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x, weight = b.inputs
        attrs = self.python_attrs()
        groups = attrs.pop("groups")
        window = Window.of(weight.shape[2:], **attrs)
        if window.is_padded:
            x, window = _zero_padded(b, x, window), window.without_pads()
        channels = Channels(
            groups, weight.shape[1], shapes.floordiv(weight.shape[0], groups)
        )

        def body(point: "Point") -> Scalar:
            where = window.positions(point.spatial, point.taps)
            own = x[(point.n, point.read, *where)]
            return b.wide(own) * b.wide(
                weight[(point.written, point.read_in_group, *point.taps)]
            )

        return channels.reduce(b, window.kernel, body, "conv")


def conv_shape(x: RankedTensorType, weight: RankedTensorType) -> Shape:
    """The shape of x, checked against the weight's rank and type."""
    if tensors.dtype_of(x) != tensors.dtype_of(weight):
        raise ValueError(
            f"operands must have one element type, got {tensors.dtype_of(x)} "
            f"and {tensors.dtype_of(weight)}"
        )
    if x.rank < 3 or x.rank != weight.rank:
        raise ValueError(
            f"expected equal ranks of 3 or more, got {x.rank} and {weight.rank}"
        )
    return tensors.shape_of(x)


def grouped(array: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """``axis`` as two: groups, and channels of a group."""
    shape = array.shape
    per_group = shape[axis] // groups
    return array.reshape(*shape[:axis], groups, per_group, *shape[axis + 1 :])


def _zero_padded(b: Builder, x: Buffer, window: Window) -> Buffer:
    before, after = (0, 0, *window.before), (0, 0, *window.after)
    shape = shapes.pad_shape(x.shape, (*before, *after))
    padded = [axis for axis in range(x.rank) if before[axis] or after[axis]]

    def body(*axes: Index) -> Scalar:
        where = [axis - pad for axis, pad in zip(axes, before, strict=True)]
        return read_padded(b, x, where, padded, b.constant(0, x.dtype))

    return b.compute(shape, body, x.dtype, "pad")
