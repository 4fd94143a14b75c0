"""Search in sorted vectors: bucketize and find."""

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["BucketizeOp", "FindOp"]

_INT32, _INT64 = dtypes.dtype("int32"), dtypes.dtype("int64")


class BucketizeOp(Relax.Operation, name="bucketize"):
    """The bucket of every element: the number of boundaries below it.

    Attributes:
        out_int32: whether y is int32, rather than int64.
        right: whether a boundary equal to the element counts as below it.
    Shapes:
        input_tensor: any; boundaries: [n], in ascending order; y: shape of input_tensor.
    Source: numpy.searchsorted.
    """

    input_tensor: Operand[RankedTensorType]
    boundaries: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    out_int32: BoolAttr
    right: BoolAttr

    cases = (
        # A single boundary is always sorted.
        Case((3, 17), (1,)),
        Case((40, "int64"), (1, "int64"), right=True, low=0, high=2),
        Case((40, "int64"), (1, "int64"), out_int32=True, low=0, high=2),
        Case((2, 3), (0,)),
    )

    @staticmethod
    def infer(
        input_tensor: RankedTensorType,
        boundaries: RankedTensorType,
        out_int32: bool = False,
        right: bool = False,
    ) -> RankedTensorType:
        if boundaries.rank != 1:
            raise ValueError(f"boundaries: expected rank 1, got {boundaries.rank}")
        out = _INT32 if out_int32 else _INT64
        return tensors.tensor_type(tensors.shape_of(input_tensor), out)

    @staticmethod
    def reference(
        input_tensor: np.ndarray,
        boundaries: np.ndarray,
        out_int32: bool = False,
        right: bool = False,
    ) -> np.ndarray:
        side = "right" if right else "left"
        found = np.searchsorted(boundaries, input_tensor, side)
        return found.astype(np.int32 if out_int32 else np.int64)

    def legalize(self, b: Builder) -> Buffer:
        x, boundaries = b.inputs
        shape, out = b.results[0]

        def body(*axes: Index) -> Scalar:
            *point, k = axes
            bound, value = b.widen(boundaries[k]), b.widen(x[tuple(point)])
            bound = b.cast(bound, value.dtype)
            is_below = bound <= value if self.right.value else bound < value
            return b.select(is_below, b.constant(1, out), b.constant(0, out))

        return b.reduce_over("add", shape, boundaries.shape, body, out, "bucketize")


class FindOp(Relax.Operation, name="find"):
    """The index of every element in a sorted vector, by binary search; n if it is absent.

    NaN matches a NaN at the end of the vector.

    Shapes:
        x: any; sorted: [n], strictly ascending, n known, of the type of x; y: int64, shape
        of x.
    """

    x: Operand[RankedTensorType]
    sorted: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = (
        # A single element is always sorted.
        Case((3, 17, "int64"), (1, "int64"), low=0, high=2),
        Case((40, "int32"), (1, "int32"), low=0, high=2),
        Case((2, 3), (0,)),
        Case(("float64",), (1, "float64")),
        EdgeCase((41,), (1,)),
    )

    @staticmethod
    def infer(x: RankedTensorType, sorted: RankedTensorType) -> RankedTensorType:
        if sorted.rank != 1 or not isinstance(tensors.shape_of(sorted)[0], int):
            raise ValueError(f"sorted: expected a vector of known length, got {sorted}")
        if tensors.dtype_of(x) != tensors.dtype_of(sorted):
            raise ValueError(
                f"sorted: expected elements of type {tensors.dtype_of(x)}, got "
                f"{tensors.dtype_of(sorted)}"
            )
        return tensors.tensor_type(tensors.shape_of(x), _INT64)

    @staticmethod
    def reference(x: np.ndarray, sorted: np.ndarray) -> np.ndarray:
        position = np.searchsorted(sorted, x).astype(np.int64)
        near = np.append(sorted, np.zeros(1, sorted.dtype))[position]
        both_nan = (x != x) & (near != near)
        is_found = (position < len(sorted)) & ((near == x) | both_nan)
        return np.where(is_found, position, len(sorted))

    def legalize(self, b: Builder) -> Buffer:
        x, known = b.inputs
        shape, out = b.results[0]
        (count,) = known.shape

        def is_below(a: Scalar, c: Scalar) -> Scalar:
            below = a < c
            return (
                (below | (a.equal(a) & c.not_equal(c))) if a.dtype.is_float else below
            )

        def body(*axes: Index) -> Scalar:
            value, position = x[axes], b.constant(0, out)
            for step in reversed(range(int(count).bit_length())):
                after = position + 2**step
                last = Index.from_scalar(after - 1).minimum(count - 1)
                fits = (after <= count) & is_below(known[last], value)
                position = b.select(fits, after, position)
            near = known[Index.from_scalar(position).minimum(count - 1)]
            is_found = ~(is_below(value, near) | is_below(near, value))
            is_found = is_found & (position < count)
            return b.select(is_found, position, b.constant(count, out))

        def absent(*axes: Index) -> Scalar:
            return b.constant(0, out)

        return b.compute(shape, body if count else absent, out, "find")
