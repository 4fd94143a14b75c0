"""Checks of indices against the sizes that they index."""

from collections.abc import Sequence

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import tensors
from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.index_ranges import out_of_range
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.indexing import check_indices
from relax_mlir.dialects.shapes import Dim

__all__ = ["CheckIndicesOp", "describe_operand"]


def describe_operand(where: str, operand: str) -> str:
    """What errors call an operand of indices.

    Args:
        where: the operator that reads it; operand: its name there.
    """
    return f"{where}: operand `{operand}`"


class CheckIndicesOp(Relax.Operation, name="check_indices"):
    """Indices as they are; the program stops with an error if one is out of range.

    Like an assertion, it is part of a compiled model only if the model is compiled with
    ``checks="indices"``.

    Attributes:
        limits: one more than the largest index; one for all indices, or one for each
            component along the last axis. May be symbolic.
        least: the smallest index; None for minus the limit.
        ignored: an index out of range that is allowed; None for none.
        where: the operator that reads the indices, for the error.
        operand: what the operator calls them.
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
        wrong = out_of_range(indices, limits, least, ignored)
        if wrong is not None:
            raise IndexError(f"{describe_operand(where, operand)}: {wrong}")
        return indices
