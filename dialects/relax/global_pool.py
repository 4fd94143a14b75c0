"""Pooling of whole channels."""

from collections.abc import Callable

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.hooks import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.pool import power, root
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["GlobalAveragePoolOp", "GlobalLpPoolOp", "GlobalMaxPoolOp"]

_CASES = (
    Case((1, 2, 7, 5)),
    Case((2, 3, 17)),
    Case((1, 2, 3, 4, 5)),
    Case((0, 3, 5, 5)),
    Case((2, 3, 1, 1)),
    Case((1, 2, 3, 5, "float16")),
    Case((1, 2, 3, 5, "float64")),
)


class GlobalPoolOp(Relax.Operation):
    """Base of poolings of all spatial elements.

    Shapes:
        x: [n, c, spatial...]; y: [n, c, 1...].
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]

    cases = _CASES

    @staticmethod
    def infer(x: RankedTensorType) -> RankedTensorType:
        if x.rank < 3:
            raise ValueError(f"expected rank 3 or more, got {x.rank}")
        shape = shapes.reduced(tensors.shape_of(x), range(2, x.rank), keepdims=True)
        return tensors.tensor_type(shape, tensors.dtype_of(x))


class GlobalAveragePoolOp(
    GlobalPoolOp, name="global_average_pool", onnx=("GlobalAveragePool", 1)
):
    """The mean of every channel.

    Source: ONNX GlobalAveragePool-1.
    """

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        axes = tuple(range(2, x.ndim))
        return x.mean(axes, np.float64, keepdims=True).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        total = _global_sum(b, lambda v: v)
        count = b.dim(shapes.product(b.inputs[0].shape[2:]))
        dtype = b.results[0][1]

        def divide(v: Scalar) -> Scalar:
            by = count.to_scalar(v.dtype) if isinstance(count, Index) else count
            return b.cast(v / by, dtype)

        return b.map(divide, total, dtype=dtype, name="divide")


class GlobalMaxPoolOp(GlobalPoolOp, name="global_max_pool", onnx=("GlobalMaxPool", 1)):
    """The largest element of every channel; NaN if it holds one.

    Source: ONNX GlobalMaxPool-1.
    """

    cases = (*_CASES, Case((1, 2, 3, 4, "int8"), low=-99, high=99))

    @staticmethod
    def reference(x: np.ndarray) -> np.ndarray:
        return x.max(tuple(range(2, x.ndim)), keepdims=True)

    def legalize(self, b: Builder) -> Buffer:
        (x,) = b.inputs
        return b.reduce("max", x, range(2, x.rank), name="global_max_pool")


class GlobalLpPoolOp(GlobalPoolOp, name="global_lp_pool"):
    """The p-norm of every channel: (sum |x|^p)^(1/p).

    Attributes:
        p: 1 or more.
    Source: ONNX GlobalLpPool-2.
    """

    p: IntegerAttr

    tolerance = 1e-4  # p-th powers and roots of f32
    cases = (Case((2, 3, 5, 7), p=1), Case((2, 3, 5, 7), p=2), Case((1, 2, 9), p=3))

    @staticmethod
    def infer(x: RankedTensorType, p: int = 2) -> RankedTensorType:
        return GlobalPoolOp.infer(x)

    @staticmethod
    def reference(x: np.ndarray, p: int = 2) -> np.ndarray:
        powers = np.abs(x.astype(np.float64)) ** p
        total = powers.sum(tuple(range(2, x.ndim)), keepdims=True)
        return (total ** (1 / p)).astype(x.dtype)

    def legalize(self, b: Builder) -> Buffer:
        p, dtype = self.p.value, b.results[0][1]
        total = _global_sum(b, lambda v: power(b, v, p))
        return b.map(
            lambda v: b.cast(root(b, v, p), dtype), total, dtype=dtype, name="root"
        )

    @staticmethod
    @onnx_rule("GlobalLpPool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return GlobalLpPoolOp(node.input(0), p=int(node.attr("p", 2))).y


def _global_sum(b: Builder, fn: Callable[[Scalar], Scalar]) -> Buffer:
    """The sum of ``fn`` over all spatial axes, in the type that sums are kept in."""
    (x,) = b.inputs
    dtype = b.sum_dtype(x.dtype)
    axes = range(2, x.rank)
    return b.reduce("add", x, axes, fn=lambda v: fn(b.wide(v)), dtype=dtype, name="sum")
