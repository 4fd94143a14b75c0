"""Reversal of variable-length sequences."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand, length_range
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ReverseSequenceOp"]


class ReverseSequenceOp(Relax.Operation, name="reverse_sequence"):
    """Reverses the first ``seq_lengths[i]`` elements of sequence i along an axis.

    A length beyond the axis reverses all of it; one of 1 or less, nothing.

    Attributes:
        seq_axis: the axis of time; negative ones count from the end.
        batch_axis: the axis of sequences; negative ones count from the end.
    Shapes:
        data, y: any; seq_lengths: [size of batch_axis], int32 or int64.
    Source: ONNX ReverseSequence-10.
    """

    data: Operand[RankedTensorType]
    seq_lengths: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    seq_axis: IntegerAttr
    batch_axis: IntegerAttr

    cases = (
        Case((3, 5), (3, "int64"), low=0, high=5),
        Case((4, 3, 2), (3, "int32"), seq_axis=0, batch_axis=1, low=-1, high=7),
        Case((2, 0), (2, "int64"), low=0, high=1),
    )
    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        "seq_lengths": IndexOperand(
            lambda data, lengths, seq_axis, batch_axis: length_range(data, seq_axis),
            "clamps: counts as the nearest length",
        )
    }

    @staticmethod
    def infer(
        data: RankedTensorType,
        seq_lengths: RankedTensorType,
        seq_axis: int = 1,
        batch_axis: int = 0,
    ) -> RankedTensorType:
        if seq_lengths.rank != 1:
            raise ValueError(f"seq_lengths: expected rank 1, got {seq_lengths.rank}")
        found = tensors.dtype_of(seq_lengths)
        if found.name not in ("int32", "int64"):
            raise ValueError(f"seq_lengths: expected int32 or int64, got {found}")
        shapes.check_axis(seq_axis, data.rank)
        batch = shapes.check_axis(batch_axis, data.rank)
        shapes.unify(tensors.shape_of(data)[batch], tensors.shape_of(seq_lengths)[0])
        return data

    @staticmethod
    def reference(
        data: np.ndarray,
        seq_lengths: np.ndarray,
        seq_axis: int = 1,
        batch_axis: int = 0,
    ) -> np.ndarray:
        y = data.copy()
        sequences = np.moveaxis(y, (batch_axis, seq_axis), (0, 1))
        for sequence, length in zip(sequences, seq_lengths.clip(0), strict=True):
            sequence[:length] = sequence[:length][::-1].copy()
        return y

    def legalize(self, b: Builder) -> Buffer:
        data, lengths = b.inputs
        shape, out = b.results[0]
        along, batch = (a.value % len(shape) for a in (self.seq_axis, self.batch_axis))
        int64 = dtypes.dtype("int64")

        def body(*point: Index) -> Scalar:
            size = Index(Index.value_of(b.dim(shape[along]))).to_scalar(int64)
            length = b.cast(lengths[point[batch]], int64).minimum(size)
            position = point[along].to_scalar(int64)
            position = b.select(position < length, length - 1 - position, position)
            source = Index.from_scalar(position)
            return data[(*point[:along], source, *point[along + 1 :])]

        return b.compute(shape, body, out, "reverse_sequence")
