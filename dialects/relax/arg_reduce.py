"""Where the extreme elements along an axis are."""

from typing import Any, ClassVar

import numpy as np
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require, wide_type, widened
from relax_mlir.dialects.relax.reduce import number_of_point, reduced_axes
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class ArgReduceOp(Relax.Operation):
    """Base of the searches along one axis, or through all elements.

    NaN is taken for the most extreme element, as numpy does.

    Attributes:
        axis: counted from either end; None searches all elements, in row-major order.
        keepdims: whether the axes that are searched stay, with size 1.
    Shapes:
        x: any shape with an element to find. y: int64, without the searched axes.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr | None
    keepdims: BoolAttr

    kind: ClassVar[str]  # the reduction that finds the extreme element
    takes_last: ClassVar[bool] = False  # of equal elements; else the first
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
        require("fiu", x)
        shape = tensors.shape_of(x)
        axes = _searched_axes(axis, len(shape))
        for searched in axes:
            if shape[searched] == 0:
                raise ValueError(
                    f"axis {searched} is empty: expected an element to choose"
                )
            shapes.require_at_least(shape[searched], 1)
        return tensors.tensor_type(shapes.reduced(shape, axes, keepdims), _I64)

    def legalize(self, b: Builder) -> Buffer:
        """The extreme element of every row, then the place of what equals it."""
        x, (shape, _) = b.buffer(self.x), b.results[0]
        axes = _searched_axes(self.python_attrs()["axis"], x.rank)
        sizes = [x.shape[axis] for axis in axes]
        kept = [i for i in range(x.rank) if i not in axes]
        keepdims = self.keepdims.value
        top = b.reduce(
            self.kind, x, axes, fn=b.wide, dtype=wide_type(x.dtype), name=self.kind
        )

        def body(*points: Index) -> Scalar:
            outer, inner = points[: len(shape)], points[len(shape) :]
            place = dict(zip(axes, inner, strict=True))
            place |= {i: outer[i if keepdims else n] for n, i in enumerate(kept)}
            row = tuple(0 if i in axes else place[i] for i in range(x.rank))
            v, t = b.wide(x[tuple(place[i] for i in range(x.rank))]), top[row]
            found = v.equal(t) | v.not_equal(v)
            far = b.constant(-1 if self.takes_last else 2**63 - 1, _I64)
            return b.select(found, number_of_point(b, inner, sizes), far)

        kind = "max" if self.takes_last else "min"
        return b.reduce_over(kind, shape, sizes, body, _I64, "index")


def _searched_axes(axis: int | None, rank: int) -> tuple[int, ...]:
    return reduced_axes(None if axis is None else (axis,), rank)


def _found(
    x: np.ndarray, axis: int | None, keepdims: bool, search: Any, *, last: bool = False
) -> np.ndarray:  # Any: numpy's function
    """Where the extreme elements are; the last of equal ones from the other end."""
    wide = widened(x)
    wide = np.flip(wide, axis) if last else wide
    found = search(wide, axis, keepdims=keepdims)
    count = x.size if axis is None else x.shape[axis]
    return np.asarray(count - 1 - found if last else found, np.int64)


class ArgmaxOp(ArgReduceOp, name="argmax"):
    """The index of the largest element along an axis, the first of equal ones."""

    kind = "max"

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _found(x, axis, keepdims, np.argmax)


class ArgminOp(ArgReduceOp, name="argmin"):
    """The index of the smallest element along an axis, the first of equal ones."""

    kind = "min"

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _found(x, axis, keepdims, np.argmin)


class ArgmaxLastOp(ArgReduceOp, name="argmax_last"):
    """The index of the largest element along an axis, the last of equal ones.

    Source: ONNX ArgMax-13, ``select_last_index``.
    """

    kind = "max"
    takes_last = True

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _found(x, axis, keepdims, np.argmax, last=True)


class ArgminLastOp(ArgReduceOp, name="argmin_last"):
    """The index of the smallest element along an axis, the last of equal ones.

    Source: ONNX ArgMin-13, ``select_last_index``.
    """

    kind = "min"
    takes_last = True

    @staticmethod
    def reference(x: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray:
        return _found(x, axis, keepdims, np.argmin, last=True)
