"""Softmax, log-softmax and hardmax along one axis."""

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, EdgeCase, OnnxNode
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
    widen_array,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_I64 = dtype("int64")


class AxisOp(Relax.Operation):
    """Base of the functions of vectors along one axis.

    Attributes:
        axis: the axis; negative ones count from the end.
    Shapes:
        data, y: [..., n, ...], rank >= 1, same float type; n is the size of ``axis``.
    """

    data: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    axis: IntegerAttr

    cases = (
        Case((5,), axis=0),
        Case((1,), axis=0),
        Case((2, 3), axis=-1),
        Case((2, 1, 3), axis=1),
        Case((0, 4), axis=1),
        Case((3, 0), axis=1),
        Case((3, 70), axis=1),
        Case((3, 257), axis=1, low=-90.0, high=90.0),
        Case((2, 5, 19), axis=1),
        Case((7, 33), axis=0),
        Case((3, 40, "float64"), axis=1),
        Case((3, 40, "float16"), axis=1),
        Case((3, 40, "bfloat16"), axis=1),
        EdgeCase((17, 4), axis=1),
    )

    @staticmethod
    def infer(data: RankedTensorType, axis: int = -1) -> RankedTensorType:
        require_element_type("f", data)
        shapes.check_axis(axis, len(tensors.shape_of(data)))
        return data

    @classmethod
    def _from_onnx_inputs(cls, node: OnnxNode) -> ir.Value:
        return cls(node.input(0), axis=node.attr("axis", -1)).results[0]


class SoftmaxOp(AxisOp, name="nn_softmax", onnx=("Softmax", 13)):
    """Softmax along one axis: exp(x - max x) / sum exp(x - max x).

    Subtracting the maximum prevents overflow for finite inputs.

    Source: ONNX Softmax-13; versions 1-12 flatten around ``axis`` first.
    """

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
        return e / e.sum(axis, keepdims=True)

    def legalize(self, b: Builder) -> Buffer:
        """Multiplies by the reciprocal of the sum, which is safe as the sum is >= 1."""
        x, axes = b.buffer(self.data), [self.axis.value]
        wide = wide_type(x.dtype)
        top = b.reduce("max", x, axes, fn=b.widen, dtype=wide, name="max")
        e = b.map(
            lambda v, m: b.exp_not_positive(b.widen(v) - m),
            *(x, top),
            dtype=wide,
            name="exp",
        )
        total = b.reduce("add", e, axes, name="sum")
        factor = b.map(lambda s: 1.0 / s, total, name="reciprocal")
        return b.map(
            lambda v, f: b.cast(v * f, x.dtype), e, factor, dtype=x.dtype, name="scale"
        )


class LogSoftmaxOp(AxisOp, name="nn_log_softmax", onnx=("LogSoftmax", 13)):
    """The logarithm of softmax along one axis: x - max x - log sum exp(x - max x).

    Source: ONNX LogSoftmax-13; versions 1-12 flatten around ``axis`` first.
    """

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def legalize(self, b: Builder) -> Buffer:
        """Subtracts the maximum first and on its own: x - max is exact near the maximum."""
        x, axes = b.buffer(self.data), [self.axis.value]
        wide = wide_type(x.dtype)
        top = b.reduce("max", x, axes, fn=b.widen, dtype=wide, name="max")
        total = b.reduce(
            "add",
            [x, top],
            axes,
            fn=lambda v, m: b.exp_not_positive(b.widen(v) - m),
            dtype=wide,
            name="sum",
        )
        log = b.map(lambda s: b.math("log", s), total, name="log")
        return b.map(
            lambda v, m, s: b.cast(b.widen(v) - m - s, x.dtype),
            *(x, top, log),
            dtype=x.dtype,
            name="subtract",
        )


class HardmaxOp(AxisOp, name="hardmax", onnx=("Hardmax", 13)):
    """1 at the first of the largest elements along one axis, 0 elsewhere.

    Source: ONNX Hardmax-13; versions 1-12 flatten around ``axis`` first.
    """

    @staticmethod
    def reference(x: np.ndarray, axis: int) -> np.ndarray:
        if x.size == 0:
            return x
        index = np.arange(x.shape[axis])
        index = index.reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim))
        return (index == widen_array(x).argmax(axis, keepdims=True)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        x = b.buffer(self.data)
        axis = shapes.check_axis(self.axis.value, x.rank)
        top = b.reduce("max", x, [axis], name="max")
        spatial = shapes.reduced(x.shape, [axis], keepdims=True)

        def candidate(*points: Index) -> Scalar:
            *outer, i = points
            v = x[(*outer[:axis], i, *outer[axis + 1 :])]
            found = v.equal(top[tuple(outer)]) | v.not_equal(v)
            return b.select(found, i.to_scalar(_I64), b.constant(2**63 - 1, _I64))

        extents = [x.shape[axis]]
        first = b.reduce_over("min", spatial, extents, candidate, _I64, "index")

        def body(*points: Index) -> Scalar:
            row = (*points[:axis], 0, *points[axis + 1 :])
            is_first = points[axis].to_scalar(_I64).equal(first[row])
            one, zero = (b.constant(v, x.dtype) for v in (1, 0))
            return b.select(is_first, one, zero)

        return b.compute(x.shape, body, x.dtype, "hardmax")
