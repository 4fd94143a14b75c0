"""Reductions of which the logarithm is taken."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir.ir import RankedTensorType

from relax_mlir.dialects import shapes
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.elementwise import computed_wide, require, wide_type
from relax_mlir.dialects.relax.reduce import (
    FLOAT_CASES,
    ReduceOp,
    reduced_type,
    reduction,
    sum_of,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar


class ReduceLogSumOp(ReduceOp, name="reduce_log_sum", onnx=("ReduceLogSum", 1)):
    """The logarithm of the sum; -inf of none."""

    cases = FLOAT_CASES

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return reduced_type(x, axes, keepdims, require("f", x))

    @staticmethod
    @reduction
    def reference(x: np.ndarray, **where: Any) -> np.ndarray:
        return np.log(sum_of(x, **where))

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("log", total)


class ReduceLogSumExpOp(
    ReduceOp, name="reduce_log_sum_exp", onnx=("ReduceLogSumExp", 1)
):
    """The logarithm of the sum of exponentials; -inf of none.

    The largest element is taken out first if it is finite, so nothing overflows.
    """

    cases = (*FLOAT_CASES, Case((3, 71), axes=(1,), low=-200.0, high=200.0))

    @staticmethod
    def infer(
        x: RankedTensorType, axes: Sequence[int], keepdims: bool = True
    ) -> RankedTensorType:
        return reduced_type(x, axes, keepdims, require("f", x))

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axes: Sequence[int], keepdims: bool) -> np.ndarray:
        axes = tuple(axes)
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(top), top, 0)
        total = np.exp(x - shift).sum(axes, keepdims=True)
        result = np.log(total) + shift
        return result if keepdims else result.squeeze(axes)

    def legalize(self, b: Builder) -> Buffer:
        """Two reductions, with keepdims; a map that may drop the axes."""
        x = b.buffer(self.x)
        axes = shapes.normalize_axes(self.axes, x.rank)
        wide = wide_type(x.dtype)
        top = b.reduce("max", x, axes, fn=b.wide, dtype=wide, name="max")
        zero_unless_finite = b.map(
            lambda t: b.select(b.math("absf", t) < np.inf, t, b.constant(0, wide)),
            top,
            name="shift",
        )
        total = b.reduce(
            "add",
            [x, zero_unless_finite],
            axes,
            fn=lambda v, s: b.math("exp", b.wide(v) - s),
            dtype=wide,
            name="sum",
        )
        gone = () if self.keepdims.value else axes

        def body(*points: Index) -> Scalar:
            where = _with_axes(points, gone)
            result = b.math("log", total[where]) + zero_unless_finite[where]
            return b.cast(result, x.dtype)

        return b.compute(b.results[0][0], body, x.dtype, "log")


def _with_axes(
    points: Sequence[Index], axes: Sequence[int]
) -> "tuple[Index | int, ...]":
    """A point, with 0 put in at axes that were dropped."""
    rest = iter(points)
    rank = len(points) + len(axes)
    return tuple(0 if axis in axes else next(rest) for axis in range(rank))
