"""Operators whose result has as many elements as the data says."""

from mlir import ir
from mlir.ir import BoolAttr, IntegerAttr, RankedTensorType, TupleType

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.slicing import unnamed_type

__all__ = ["NonzeroOp", "UniqueOp"]

_INT64 = dtypes.dtype("int64")


class NonzeroOp(Relax.Operation, name="nonzero"):
    """The places of the elements that are not 0, in row-major order.

    Shapes:
        x: any; y: int64, a row per axis of x, a column per element.
    Source: numpy.nonzero, its arrays as rows.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        return unnamed_type(2, _INT64.tensor_type)


class UniqueOp(Relax.Operation, name="unique"):
    """Every element that is there, or every slice, once.

    Attributes:
        sorted: whether they are in order, or as they first appear.
        return_index, return_inverse, return_counts: whether there is also where each of
            them first is, which of them every element is, how many of each there are.
        axis: of the slices; None for elements.
    Shapes:
        y: the elements, and int64 vectors for what else is asked for, as a tuple; without
        that the elements alone.
    Source: numpy.unique.
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
        found = unnamed_type(1 if axis is None else x.rank, x.element_type)
        more = sum((return_index, return_inverse, return_counts))
        if not more:
            return found
        return TupleType.get_tuple(
            [found, *[unnamed_type(1, _INT64.tensor_type)] * more]
        )
