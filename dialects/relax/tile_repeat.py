"""Tiling and repetition along axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["RepeatOp", "TileOp"]


class TileOp(Relax.Operation, name="tile"):
    """A tensor tiled ``repeats`` times along every axis.

    Attributes:
        repeats: copies per axis, aligned with the last axes; further ones add leading axes.
    Shapes:
        data: [n, ...]; y: [n * repeats[0], ...].
    Source: numpy.tile; ONNX Tile-13 with as many repeats as axes.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    repeats: Attr

    cases = (
        Case((2, 3), repeats=(2, 3)),
        Case((1, 5), repeats=(4, 1)),
        Case((3,), repeats=(0,)),
        Case((2, 1, 7), repeats=(1, 3, 5)),
        Case((3, "int64"), repeats=(4,), low=-9, high=9),
        Case((2, 3), repeats=(2,)),
        Case((3,), repeats=(2, 1, 2)),
    )

    @staticmethod
    def normalize_arguments(**attrs: Any) -> dict[str, Any]:  # Any: see the base
        repeats = attrs["repeats"]
        return {"repeats": repeats if isinstance(repeats, Sequence) else (repeats,)}

    @staticmethod
    def infer(data: RankedTensorType, repeats: Sequence[Dim]) -> RankedTensorType:
        shape = tensors.shape_of(data)
        if any(shapes.is_known_le(count, -1) for count in repeats):
            raise ValueError(f"expected repeats of 0 or more, got {list(repeats)}")
        shapes.require_nonnegative(repeats)
        rank = max(len(shape), len(repeats))
        pairs = zip(_filled(shape, rank), _filled(repeats, rank), strict=True)
        tiled = tuple(dim * count for dim, count in pairs)
        return tensors.tensor_type(tiled, tensors.dtype_of(data))

    @staticmethod
    def reference(data: np.ndarray, repeats: Sequence[int]) -> np.ndarray:
        return np.tile(data, repeats)

    def legalize(self, b: Builder) -> Buffer:
        data = b.buffer(self.data)
        shape, dtype = b.results[0]
        new = len(shape) - data.rank

        def body(*axes: Index) -> Scalar:
            triples = zip(axes[new:], data.shape, shape[new:], strict=True)
            return data[
                tuple(a if old == new else a % b.dim(old) for a, old, new in triples)
            ]

        return b.compute(shape, body, dtype, "tile")

    @staticmethod
    @onnx_rule("Tile", since=6)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, repeats = node.input(0), node.dims(1)
        if len(repeats) != len(tensors.shape_of(x)):
            raise ValueError(
                f"expected {len(tensors.shape_of(x))} repeats, got {len(repeats)}"
            )
        return TileOp(x, repeats=repeats).y


def _filled(dims: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    """``dims`` with leading 1s, up to ``rank``."""
    return (*[1] * (rank - len(dims)), *dims)


class RepeatOp(Relax.Operation, name="repeat"):
    """Every element repeated ``repeats`` times in a row along an axis.

    Attributes:
        repeats: number of repetitions.
        axis: negative ones count from the end; None for the flattened tensor.
    Shapes:
        data: [..., n, ...]; y: [..., n * repeats, ...], or [size of data * repeats].
    Source: numpy.repeat with a scalar count.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    repeats: IntegerAttr
    axis: IntegerAttr | None

    cases = (
        Case((2, 3), repeats=3, axis=1),
        Case((2, 3), repeats=2, axis=-2),
        Case((2, 3, 5), repeats=2),
        Case((4, "int64"), repeats=0, axis=0),
        Case((), repeats=3),
    )

    @staticmethod
    def infer(
        data: RankedTensorType, repeats: int, axis: int | None = None
    ) -> RankedTensorType:
        if repeats < 0:
            raise ValueError(f"expected repeats of 0 or more, got {repeats}")
        shape = list(tensors.shape_of(data))
        if axis is None:
            shape = [shapes.product(shape) * repeats]
        else:
            axis = shapes.check_axis(axis, data.rank)
            shape[axis] = shape[axis] * repeats
        return tensors.tensor_type(shape, tensors.dtype_of(data))

    @staticmethod
    def reference(
        data: np.ndarray, repeats: int, axis: int | None = None
    ) -> np.ndarray:
        return np.repeat(data, repeats, axis)

    def legalize(self, b: Builder) -> Buffer:
        data = b.buffer(self.data)
        shape, dtype = b.results[0]
        attrs = self.python_attrs()
        repeats = max(1, attrs["repeats"])

        def along(*axes: Index) -> Scalar:
            axis = attrs["axis"] % data.rank
            return data[(*axes[:axis], axes[axis] // repeats, *axes[axis + 1 :])]

        def flat(index: Index) -> Scalar:
            number = index // repeats
            where: list[Index | int] = []
            for dim in reversed(data.shape):
                where.append(number % b.dim(dim))
                number = number // b.dim(dim)
            return data[tuple(reversed(where))]

        body = flat if attrs["axis"] is None else along
        return b.compute(shape, body, dtype, "repeat")
