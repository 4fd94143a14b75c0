"""Arg-reductions: indices of the extreme elements along an axis."""

from typing import Any, ClassVar

import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    require_element_type,
    wide_type,
    widen_array,
)
from relax_mlir.dialects.relax.reduce import linearize_index, reduced_axes
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class ArgReduceOp(Relax.Operation):
    """Base of the arg-reductions along one axis, or over all elements.

    NaN counts as the most extreme element, as in numpy.

    Attributes:
        axis: negative ones count from the end; None for the flattened tensor.
        keepdims: whether the reduced axes are kept with size 1.
    Shapes:
        x: any shape whose reduced axes are not empty. y: int64, without the reduced axes.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None
    keepdims: BoolAttr

    kind: ClassVar[str]  # the reduction that gives the extreme element
    takes_last: ClassVar[bool] = False  # the last of equal elements, not the first
    cases = (
        Case((5,), axis=0),
        Case((3, 71), axis=1, keepdims=True),
        Case((3, 71), axis=0),
        Case((2, 17, 5), axis=-2, keepdims=True),
        Case((2, 1, 5), axis=1),
        Case((0, 4), axis=1, keepdims=True),
        Case((4, 30, "int32"), axis=1, keepdims=True, low=-2, high=2),
        Case((4, 30, "uint8"), axis=-1, high=3),
        Case((4, 30, "float16"), axis=1, keepdims=True),
        Case((4, 30, "bfloat16"), axis=1, keepdims=True),
        Case((4, 30, "float64"), axis=1, keepdims=True),
        EdgeCase((40, 3), axis=1, keepdims=True),
        Case(()),
        Case((3, 5, 7)),
        Case((3, 5, "int32"), keepdims=True, low=-1, high=1),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, axis: int | None = None, keepdims: bool = False
    ) -> RankedTensorType:
        require_element_type("fiu", x)
        shape = tensors.shape_of(x)
        axes = _reduced_axes(axis, len(shape))
        for reduced in axes:
            if shape[reduced] == 0:
                raise ValueError(
                    f"axis {reduced} is empty: expected an element to choose"
                )
            shapes.require_at_least(shape[reduced], 1)
        return tensors.tensor_type(shapes.reduced(shape, axes, keepdims), _I64)

    def legalize(self, b: Builder) -> Buffer:
        """Two reductions: the extreme element, then the first index equal to it."""
        x, (shape, _) = b.buffer(self.x), b.results[0]
        axes = _reduced_axes(self.python_attrs()["axis"], x.rank)
        sizes = [x.shape[axis] for axis in axes]
        kept = [i for i in range(x.rank) if i not in axes]
        keepdims = self.keepdims.value
        top = b.reduce(
            self.kind, x, axes, fn=b.widen, dtype=wide_type(x.dtype), name=self.kind
        )

        def body(*points: Index) -> Scalar:
            outer, inner = points[: len(shape)], points[len(shape) :]
            at = dict(zip(axes, inner, strict=True))
            at |= {i: outer[i if keepdims else n] for n, i in enumerate(kept)}
            row = tuple(0 if i in axes else at[i] for i in range(x.rank))
            v, t = b.widen(x[tuple(at[i] for i in range(x.rank))]), top[row]
            is_extreme = v.equal(t) | v.not_equal(v)
            far = b.constant(-1 if self.takes_last else 2**63 - 1, _I64)
            return b.select(is_extreme, linearize_index(b, inner, sizes), far)

        kind = "max" if self.takes_last else "min"
        return b.reduce_over(kind, shape, sizes, body, _I64, "index")


def _reduced_axes(axis: int | None, rank: int) -> tuple[int, ...]:
    return reduced_axes(None if axis is None else (axis,), rank)


def _arg_extreme(
    x: np.ndarray, axis: int | None, keepdims: bool, search: Any, *, last: bool = False
) -> np.ndarray:  # Any: numpy's function
    """The numpy reference; the last of equal elements is the first of the flipped array."""
    wide = widen_array(x)
    wide = np.flip(wide, axis) if last else wide
    found = search(wide, axis, keepdims=keepdims)
    count = x.size if axis is None else x.shape[axis]
    return np.asarray(count - 1 - found if last else found, np.int64)


class ArgmaxOp(ArgReduceOp, name="argmax"):
    """The index of the largest element along an axis, the first of equal ones.

    Source: numpy.argmax; ONNX ArgMax-13.
    """

    kind = "max"

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _arg_extreme(x, axis, keepdims, np.argmax)


class ArgminOp(ArgReduceOp, name="argmin"):
    """The index of the smallest element along an axis, the first of equal ones.

    Source: numpy.argmin; ONNX ArgMin-13.
    """

    kind = "min"

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _arg_extreme(x, axis, keepdims, np.argmin)


class ArgmaxLastOp(ArgReduceOp, name="argmax_last"):
    """The index of the largest element along an axis, the last of equal ones.

    Source: ONNX ArgMax-13, ``select_last_index``.
    """

    kind = "max"
    takes_last = True

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _arg_extreme(x, axis, keepdims, np.argmax, last=True)


class ArgminLastOp(ArgReduceOp, name="argmin_last"):
    """The index of the smallest element along an axis, the last of equal ones.

    Source: ONNX ArgMin-13, ``select_last_index``.
    """

    kind = "min"
    takes_last = True

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _arg_extreme(x, axis, keepdims, np.argmin, last=True)
