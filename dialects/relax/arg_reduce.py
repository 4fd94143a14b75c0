"""Where the extreme elements along an axis are."""

from typing import ClassVar

import numpy as np
from mlir import ir
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require, wide_type, widened
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class ArgReduceOp(Relax.Operation):
    """Base of the searches along one axis.

    NaN is taken for the most extreme element, as numpy does.

    Attributes:
        axis: counted from either end.
        keepdims: whether the axis stays, with size 1.
        select_last_index: whether the last of equal elements is taken, not the first.
    Shapes:
        x: any shape with an element along ``axis``. y: int64, without that axis.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr
    keepdims: BoolAttr
    select_last_index: BoolAttr

    kind: ClassVar[str]  # the reduction that finds the extreme element
    cases = (
        Case((5,), axis=0, keepdims=False),
        Case((3, 71), axis=1),
        Case((3, 71), axis=0, keepdims=False),
        Case((2, 17, 5), axis=-2),
        Case((2, 1, 5), axis=1, keepdims=False),
        Case((0, 4), axis=1),
        Case((4, 30, "int32"), axis=1, low=-2, high=2),
        Case((4, 30, "int32"), axis=1, low=-2, high=2, select_last_index=True),
        Case((4, 30, "uint8"), axis=-1, high=3, keepdims=False, select_last_index=True),
        Case((4, 30, "float16"), axis=1),
        Case((4, 30, "bfloat16"), axis=1),
        Case((4, 30, "float64"), axis=1),
        EdgeCase((40, 3), axis=1),
        EdgeCase((40, 3), axis=1, select_last_index=True),
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        axis: int,
        keepdims: bool = True,
        select_last_index: bool = False,
    ) -> RankedTensorType:
        require("fiu", x)
        shape = tensors.shape_of(x)
        if shape[shapes.check_axis(axis, len(shape))] == 0:
            raise ValueError(f"axis {axis} is empty: expected an element to choose")
        return tensors.tensor_type(shapes.reduced(shape, (axis,), keepdims), _I64)

    def legalize(self, b: Builder) -> Buffer:
        """The extreme element of every row, then the place of what equals it."""
        x = b.buffer(self.x)
        axis = shapes.check_axis(self.axis.value, x.rank)
        keepdims, last = self.keepdims.value, self.select_last_index.value
        top = b.reduce(
            self.kind, x, [axis], fn=b.wide, dtype=wide_type(x.dtype), name=self.kind
        )

        def body(*points: Index) -> Scalar:
            *outer, i = points
            if keepdims:
                del outer[axis]
            before, after = outer[:axis], outer[axis:]
            v, t = b.wide(x[(*before, i, *after)]), top[(*before, 0, *after)]
            found = v.equal(t) | v.not_equal(v)
            far = b.constant(-1 if last else 2**63 - 1, _I64)
            return b.select(found, i.to_scalar(_I64), far)

        shape = b.results[0][0]
        kind = "max" if last else "min"
        return b.reduce_over(kind, shape, [x.shape[axis]], body, _I64, "index")

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        return cls(
            node.input(0),
            axis=node.attr("axis", 0),
            keepdims=bool(node.attr("keepdims", 1)),
            select_last_index=bool(node.attr("select_last_index", 0)),
        ).results[0]


def _searched(
    x: np.ndarray, axis: int, keepdims: bool, select_last_index: bool, *, sign: int
) -> np.ndarray:
    wide = widened(x)
    wide = np.flip(wide, axis) if select_last_index else wide
    found = (np.argmax if sign > 0 else np.argmin)(wide, axis, keepdims=keepdims)
    found = x.shape[axis] - 1 - found if select_last_index else found
    return np.asarray(found, np.int64)


class ArgmaxOp(ArgReduceOp, name="argmax", onnx=("ArgMax", 1)):
    """The index of the largest element along an axis.

    Source: ONNX ArgMax-13.
    """

    kind = "max"

    @staticmethod
    def reference(
        x: np.ndarray, axis: int, keepdims: bool, select_last_index: bool
    ) -> np.ndarray:
        return _searched(x, axis, keepdims, select_last_index, sign=1)


class ArgminOp(ArgReduceOp, name="argmin", onnx=("ArgMin", 1)):
    """The index of the smallest element along an axis.

    Source: ONNX ArgMin-13.
    """

    kind = "min"

    @staticmethod
    def reference(
        x: np.ndarray, axis: int, keepdims: bool, select_last_index: bool
    ) -> np.ndarray:
        return _searched(x, axis, keepdims, select_last_index, sign=-1)
