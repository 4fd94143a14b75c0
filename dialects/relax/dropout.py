"""What training leaves out, and inference does not."""

import numpy as np
from mlir.ir import FloatAttr, RankedTensorType, TupleType

from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require
from relax_mlir.dialects.tir import Buffer, Builder


class DropoutOp(Relax.Operation, name="nn_dropout"):
    """The data as it is, and a mask of ones: nothing is left out in inference.

    Attributes:
        rate: the share that training leaves out.
    Shapes:
        data: any shape, a number. y: a tuple of twice its type.
    Source: Srivastava et al., Dropout, 2014.
    """

    skips_parts = True

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
        require("fiu", data)
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
