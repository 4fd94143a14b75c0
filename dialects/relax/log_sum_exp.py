"""Logarithms of reductions: log-sum and log-sum-exp."""

from collections.abc import Callable, Sequence

import numpy as np

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.reduce import REDUCE_FLOAT_CASES, ReduceOp, reduced_axes
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_INTEGERS = (
    Case((3, 71, "int32"), axis=(1,), low=0, high=9),
    Case((3, 5, "int64"), axis=(0,), low=1, high=2**40, keepdims=False),
    Case((3, 0, "int32"), axis=(1,)),
    Case((3, 9, "uint32"), axis=(1,), high=9),
)


def _type(type_: DType) -> DType:
    """The type in which the sum and its logarithm are computed: f64 for integers."""
    return dtype("float64") if type_.is_integer else wide_type(type_)


def _in_wide_type(
    function: Callable[[np.ndarray, tuple[int, ...], bool], np.ndarray],
) -> Callable[..., np.ndarray]:
    """Decorator of a reference: computes in the wide type and casts back."""

    def reference(
        x: np.ndarray, axis: Sequence[int] | None, keepdims: bool
    ) -> np.ndarray:
        own, axes = dtypes.from_numpy(x.dtype), reduced_axes(axis, x.ndim)
        with np.errstate(all="ignore"):
            result = function(x.astype(_type(own).numpy), axes, keepdims)
            return AstypeOp.reference(np.asarray(result), own)

    return reference


class ReduceLogSumOp(ReduceOp, name="reduce_log_sum", onnx=("ReduceLogSum", 1)):
    """The logarithm of the sum over axes; -inf for an empty reduction.

    Integers are computed in f64 and cast back, so an empty reduction gives their lowest
    number.

    Source: ONNX ReduceLogSum-18.
    """

    cases = (*REDUCE_FLOAT_CASES, *_INTEGERS)

    @staticmethod
    @_in_wide_type
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        return np.log(x.sum(axes, keepdims=keepdims))

    def accumulator_type(self, type_: DType) -> DType:
        return _type(type_)

    def after(self, b: Builder, total: Scalar) -> Scalar:
        return b.math("log", total)


class ReduceLogSumExpOp(
    ReduceOp, name="reduce_log_sum_exp", onnx=("ReduceLogSumExp", 1)
):
    """log(sum exp(x)) over axes; -inf for an empty reduction.

    The maximum, if finite, is subtracted first, so that the exponentials do not overflow.
    Integers are computed in f64 and cast back, so an empty reduction gives their lowest
    number.

    Source: ONNX ReduceLogSumExp-18.
    """

    cases = (
        *REDUCE_FLOAT_CASES,
        *_INTEGERS,
        Case((3, 71), axis=(1,), low=-200.0, high=200.0),
        Case((3, 7, "int64"), axis=(1,), low=-900, high=900),
    )

    @staticmethod
    @_in_wide_type
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        top = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        shift = np.where(np.isfinite(top), top, 0)
        total = np.exp(x - shift).sum(axes, keepdims=True)
        result = np.log(total) + shift
        return result if keepdims else result.squeeze(axes)

    def legalize(self, b: Builder) -> Buffer:
        """Two reductions that keep the axes; an elementwise block that may drop them."""
        x = b.buffer(self.x)
        axes, wide = self.axes, _type(x.dtype)
        top = b.reduce(
            "max", x, axes, fn=lambda v: b.cast(v, wide), dtype=wide, name="max"
        )
        zero_unless_finite = b.map(
            lambda t: b.select(b.math("absf", t) < np.inf, t, b.constant(0, wide)),
            top,
            name="shift",
        )
        total = b.reduce(
            "add",
            [x, zero_unless_finite],
            axes,
            fn=lambda v, s: b.math("exp", b.cast(v, wide) - s),
            dtype=wide,
            name="sum",
        )
        dropped = () if self.keepdims.value else axes

        def body(*points: Index) -> Scalar:
            where = _with_axes(points, dropped)
            result = b.math("log", total[where]) + zero_unless_finite[where]
            return b.cast(result, x.dtype)

        return b.compute(b.results[0][0], body, x.dtype, "log")


def _with_axes(
    points: Sequence[Index], axes: Sequence[int]
) -> "tuple[Index | int, ...]":
    """Inserts index 0 at dropped axes."""
    rest = iter(points)
    rank = len(points) + len(axes)
    return tuple(0 if axis in axes else next(rest) for axis in range(rank))
