"""Places in sorted vectors."""

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["BucketizeOp"]

_INT32, _INT64 = dtypes.dtype("int32"), dtypes.dtype("int64")


class BucketizeOp(Relax.Operation, name="bucketize"):
    """How many boundaries are below an element: the bucket that it falls into.

    Attributes:
        out_int32: whether buckets are counted in int32, not int64.
        right: whether a boundary that is equal to the element counts as below it.
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
        # One boundary is in order whatever it is.
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
            bound, value = b.wide(boundaries[k]), b.wide(x[tuple(point)])
            bound = b.cast(bound, value.dtype)
            is_below = bound <= value if self.right.value else bound < value
            return b.select(is_below, b.constant(1, out), b.constant(0, out))

        return b.reduce_over("add", shape, boundaries.shape, body, out, "bucketize")
