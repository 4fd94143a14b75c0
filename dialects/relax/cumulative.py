"""Running totals along an axis."""

from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require,
    wide_type,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class CumulativeOp(Relax.Operation):
    """Base of the running totals, each computed from the one before.

    Attributes:
        axis: counted from either end.
        exclusive: whether an element is left out of the total at its own place.
        reverse: whether to run from the end to the beginning.
    Shapes:
        x, y: any shape of rank 1 or more, same element type, a number.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    exclusive: BoolAttr
    reverse: BoolAttr

    start: ClassVar[int]  # the total before the first element
    cases = (
        Case((5,), axis=0),
        Case((1,), axis=0, exclusive=True),
        Case((3, 0), axis=1),
        Case((0, 3), axis=1),
        Case((3, 71), axis=1),
        Case((9, 17), axis=-2),
        Case((2, 9, 3), axis=1, exclusive=True),
        Case((2, 9, 3), axis=1, reverse=True),
        Case((2, 9), axis=1, exclusive=True, reverse=True),
        Case((2, 9, "int64"), axis=1, low=-3, high=3),
        Case((2, 9, "uint32"), axis=1, high=9),
        Case((2, 9, "float64"), axis=1),
        Case((2, 90, "float16"), axis=1),
        Case((2, 90, "bfloat16"), axis=1),
        EdgeCase((9, 3), axis=1),
    )

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        """The total with one more element; f16 and bf16 come as f32."""
        raise NotImplementedError

    @staticmethod
    def infer(
        x: RankedTensorType, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> RankedTensorType:
        require("fiu", x)
        shapes.check_axis(axis, len(tensors.shape_of(x)))
        return x

    def legalize(self, b: Builder) -> Buffer:
        """A loop along the axis, for every point of the others."""
        x = b.buffer(self.x)
        axis = shapes.check_axis(self.axis.value, x.rank)
        exclusive, reverse = self.exclusive.value, self.reverse.value
        out, size = b.alloc(x.shape, x.dtype), b.dim(x.shape[axis])

        def body(*outer: Index) -> None:
            def step(i: Index, total: Scalar) -> list[Scalar]:
                place = size - 1 - i if reverse else i
                where = (*outer[:axis], place, *outer[axis:])
                following = self.step(total, b.wide(x[where]))
                out.store(b.cast(total if exclusive else following, x.dtype), where)
                return [following]

            b.loop(size, [b.constant(self.start, wide_type(x.dtype))], step)

        others = (*x.shape[:axis], *x.shape[axis + 1 :])
        b.block(self.SHORT_NAME, others, "S" * len(others), body)
        return out

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        return cls(
            node.input(0),
            axis=int(node.known(1).item()),
            exclusive=bool(node.attr("exclusive", 0)),
            reverse=bool(node.attr("reverse", 0)),
        ).results[0]


def _accumulated(
    x: np.ndarray, axis: int, exclusive: bool, reverse: bool, *, step: np.ufunc
) -> np.ndarray:
    """The running totals by numpy's ``accumulate``, behind one start value."""
    x = np.flip(x, axis) if reverse else x
    first = np.full_like(np.take(x, [0], axis) if x.size else x, step.identity)
    totals = step.accumulate(np.concatenate([first, x], axis), axis, x.dtype)
    count = x.shape[axis]
    begin = 0 if exclusive else totals.shape[axis] - count
    totals = np.take(totals, range(begin, begin + count), axis)
    return np.flip(totals, axis) if reverse else totals


class CumSumOp(CumulativeOp, name="cum_sum", onnx=("CumSum", 11)):
    """The sum of the elements up to each, along an axis.

    Source: ONNX CumSum-14.
    """

    start = 0

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: int, exclusive: bool, reverse: bool
    ) -> np.ndarray:
        return _accumulated(x, axis, exclusive, reverse, step=np.add)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total + v


class CumProdOp(CumulativeOp, name="cum_prod", onnx=("CumProd", 26)):
    """The product of the elements up to each, along an axis.

    Source: ONNX CumProd-26.
    """

    start = 1

    @staticmethod
    @computed_wide
    def reference(
        x: np.ndarray, axis: int, exclusive: bool, reverse: bool
    ) -> np.ndarray:
        return _accumulated(x, axis, exclusive, reverse, step=np.multiply)

    def step(self, total: Scalar, v: Scalar) -> Scalar:
        return total * v
