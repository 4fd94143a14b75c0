"""One-hot encoding."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand
from relax_mlir.dialects.op_interface import Case, IndexCase
from relax_mlir.dialects.relax.gather import check_indices
from relax_mlir.dialects.relax.scalar_attributes import (
    ScalarAttributesOp,
    ScalarValue,
    dtype_of_number,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["OneHotOp"]


class OneHotOp(ScalarAttributesOp, name="one_hot"):
    """One-hot vectors: ``on_value`` at every index, ``off_value`` elsewhere.

    An index out of range gives ``off_value`` everywhere; negative indices are out of
    range.

    Attributes:
        on_value, off_value: numbers of one element type.
        depth: the length of the vectors; may be symbolic.
        axis: the axis of the vectors in y; negative ones count from the end.
    Shapes:
        indices: [a..., b...], integers; y: [a..., depth, b...], of the numbers' type.
    """

    indices: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    on_value: Attr
    off_value: Attr
    depth: Attr
    axis: IntegerAttr

    argument_attributes = ("on_value", "off_value")
    number_attributes = ("on_value", "off_value", "depth")
    keeps_number_types = True
    cases = (
        Case((5, "int64"), on_value=1, off_value=0, depth=4, low=-6, high=6),
        Case(
            (2, 3, "int32"),
            on_value=2.5,
            off_value=-1.0,
            depth=5,
            axis=0,
            low=-1,
            high=6,
        ),
        Case(
            (2, 3, "int64"),
            on_value=np.float32(1.5),
            off_value=np.float32(0),
            depth=1,
            axis=1,
            low=-1,
            high=1,
        ),
        Case((3, "int8"), on_value=7, off_value=-7, depth=7, axis=-1, low=0, high=6),
        Case((2, "uint8"), on_value=True, off_value=False, depth=3, low=0, high=3),
        Case((0, "int64"), on_value=np.int32(1), off_value=np.int32(0), depth=3),
        Case(("int64",), on_value=np.float16(2), off_value=np.float16(0), depth=3),
        IndexCase((9, "int64"), on_value=1, off_value=0, depth=4, low=-4, high=3),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "indices": IndexOperand.unlimited("gives `off_value` everywhere")
    }

    @staticmethod
    def infer(
        indices: RankedTensorType,
        on_value: ScalarValue,
        off_value: ScalarValue,
        depth: Dim,
        axis: int = -1,
    ) -> RankedTensorType:
        check_indices(indices)
        dtype, other = dtype_of_number(on_value), dtype_of_number(off_value)
        if dtype != other:
            raise ValueError(
                f"on_value and off_value must be of one type, got {dtype} and {other}"
            )
        shapes.require_nonnegative((depth,))
        shape = tensors.shape_of(indices)
        axis = shapes.check_axis(axis, len(shape) + 1)
        return tensors.tensor_type((*shape[:axis], depth, *shape[axis:]), dtype)

    @staticmethod
    def reference(
        indices: np.ndarray,
        on_value: ScalarValue,
        off_value: ScalarValue,
        depth: int,
        axis: int = -1,
    ) -> np.ndarray:
        axis %= indices.ndim + 1
        along = [1] * (indices.ndim + 1)
        along[axis] = depth
        is_on = np.expand_dims(indices, axis) == np.arange(depth).reshape(along)
        on, off = np.asarray(on_value), np.asarray(off_value)
        return np.where(is_on, on, off)

    def legalize(self, b: Builder) -> Buffer:
        (indices,) = b.inputs
        shape, type_ = b.results[0]
        axis = self.axis.value % len(shape)
        attrs = self.python_attrs()

        def body(*axes: Index) -> Scalar:
            index = indices[(*axes[:axis], *axes[axis + 1 :])]
            on, off = (
                b.constant(float(attrs[n]) if type_.is_float else int(attrs[n]), type_)
                for n in ("on_value", "off_value")
            )
            return b.select(Index.from_scalar(index).equal(axes[axis]), on, off)

        return b.compute(shape, body, type_, "one_hot")
