"""Operators with data-dependent result shapes: nonzero and unique."""

from mlir import ir
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TupleType

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.slicing import dynamic_shape_type

__all__ = ["NonzeroOp", "UniqueOp"]

_INT64 = dtypes.dtype("int64")


class NonzeroOp(Relax.Operation, name="nonzero"):
    """The indices of the nonzero elements, in row-major order.

    Shapes:
        x: any; y: [rank of x, number of nonzero elements], int64.
    Source: numpy.nonzero, with its arrays as rows; ONNX NonZero-13.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return dynamic_shape_type(2, _INT64.tensor_type)


class UniqueOp(Relax.Operation, name="unique"):
    """The distinct elements of a tensor, or its distinct slices along an axis.

    Attributes:
        sorted: whether they are in ascending order, rather than by first occurrence.
        return_index: also return the index of the first occurrence of each.
        return_inverse: also return, for every element, the index of its distinct element.
        return_counts: also return the number of occurrences of each.
        axis: the axis of the slices; None for the elements of the flattened tensor.
    Shapes:
        y: the distinct elements, [k], or slices, of the rank of x; with any of the flags a
        tuple of these and an int64 vector per flag.
    Source: numpy.unique; ONNX Unique-11.
    """

    x: Operand[RankedTensorType]
    y: Result[ir.Type]
    sorted: BoolAttr
    return_index: BoolAttr
    return_inverse: BoolAttr
    return_counts: BoolAttr
    axis: IntegerAttr | None

    argument_attributes = (
        "sorted",
        "return_index",
        "return_inverse",
        "return_counts",
        "axis",
    )

    @staticmethod
    def infer(
        x: RankedTensorType,
        sorted: bool = True,
        return_index: bool = False,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: int | None = None,
    ) -> "RankedTensorType | TupleType":
        if axis is not None:
            shapes.check_axis(axis, x.rank)
        found = dynamic_shape_type(1 if axis is None else x.rank, x.element_type)
        more = sum((return_index, return_inverse, return_counts))
        if not more:
            return found
        return TupleType.get_tuple(
            [found, *[dynamic_shape_type(1, _INT64.tensor_type)] * more]
        )
