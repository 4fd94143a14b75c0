"""Runtime bounds checks of indices."""

from collections.abc import Sequence

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import tensors
from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.index_ranges import out_of_range_message
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.gather import check_indices
from relax_mlir.dialects.shapes import Dim

__all__ = ["CheckIndicesOp", "describe_operand"]


def describe_operand(where: str, operand: str) -> str:
    """Formats the name of an index operand for error messages.

    Args:
        where: the operator that reads the operand.
        operand: the name of the operand.
    """
    return f"{where}: operand `{operand}`"


class CheckIndicesOp(Relax.Operation, name="check_indices"):
    """The identity on indices; raises an error at run time if one is out of range.

    It is part of a compiled model only with the option ``checks="indices"``.

    Attributes:
        limits: exclusive upper bound: one for all indices, or one for each component along
            the last axis. May be symbolic.
        least: the smallest valid index; None for minus the limit.
        ignored: an index out of range that is also valid; None for none.
        where: the operator that reads the indices, for the error message.
        operand: the name of the operand of that operator.
    Shapes:
        indices, y: any shape, integers.
    """

    effects = Effects.CHECKS

    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    limits: Attr
    least: IntegerAttr | None
    ignored: IntegerAttr | None
    where: StringAttr
    operand: StringAttr

    argument_attributes = ("limits",)
    cases = (
        Case((4, "int64"), limits=(3,), low=-3, high=2),
        Case((2, 3, "int32"), limits=(5,), least=0, low=0, high=4),
        Case((4, 2, "int64"), limits=(3, 7), low=-3, high=2),
        Case((3, "int64"), limits=(1,), least=0, ignored=-1, low=-1, high=0),
        Case((0, "int64"), limits=(0,)),
    )

    @staticmethod
    def infer(
        indices: RankedTensorType,
        limits: Sequence[Dim],
        least: int | None = None,
        ignored: int | None = None,
        where: str = "",
        operand: str = "indices",
    ) -> RankedTensorType:
        check_indices(indices)
        components = tensors.shape_of(indices)[-1:]
        if len(limits) != 1 and (len(limits),) != components:
            raise ValueError(
                f"limits: expected one, or one for each component of the last axis, got "
                f"{len(limits)}"
            )
        return indices

    @staticmethod
    def reference(
        indices: np.ndarray,
        limits: Sequence[int],
        least: int | None = None,
        ignored: int | None = None,
        where: str = "",
        operand: str = "indices",
    ) -> np.ndarray:
        wrong = out_of_range_message(indices, limits, least, ignored)
        if wrong is not None:
            raise IndexError(f"{describe_operand(where, operand)}: {wrong}")
        return indices
