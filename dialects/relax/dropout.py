"""Dropout, in inference mode."""

import numpy as np
from mlir.ir import FloatAttr, RankedTensorType, TupleType

from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require_element_type
from relax_mlir.dialects.tir import Buffer, Builder


class DropoutOp(Relax.Operation, name="nn_dropout"):
    """Dropout at inference: the identity, and a mask of ones.

    Attributes:
        rate: the dropout probability in training; not used at inference.
    Shapes:
        data: any shape, numbers. y: a tuple (data, mask), both of the type of data.
    Source: Srivastava et al., Dropout, 2014.
    """

    skips_unused_results = True

    data: Operand[RankedTensorType]
    y: Result[TupleType]
    rate: FloatAttr

    cases = (
        Case(()),
        Case((0, 4)),
        Case((3, 71), rate=0.1),
        Case((9, "float16")),
        Case((9, "int32")),
    )

    @staticmethod
    def infer(data: RankedTensorType, rate: float = 0.5) -> TupleType:
        require_element_type("fiu", data)
        return TupleType.get_tuple([data, data])

    @staticmethod
    def reference(data: np.ndarray, rate: float) -> list[np.ndarray]:
        return [data, np.ones_like(data)]

    def legalize(self, b: Builder) -> list[Buffer]:
        data = b.buffer(self.data)
        if not b.wanted[1]:
            return [data, data]
        shape, type_ = b.results[1]
        mask = b.compute(shape, lambda *_: b.constant(1, type_), type_, "mask")
        return [data, mask]
