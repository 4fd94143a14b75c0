"""Lp pooling: p-norms of sliding windows and of whole channels."""

from typing import Any

import numpy as np
from mlir import ir
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import computed_wide
from relax_mlir.dialects.relax.window_reduction import (
    PoolOp,
    extract_windows,
    onnx_pool,
    pool_cases,
    pool_window,
    reduce_windows,
)
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

__all__ = ["GlobalLpPoolOp", "LpPoolOp"]

_MAX_UNROLLED_POWER = 8  # larger exponents use math.powf


class LpPoolOp(PoolOp, name="lp_pool"):
    """The p-norm of every window: (sum |x|^p)^(1/p).

    Attributes:
        p: the order of the norm, 1 or more.
    Source: ONNX LpPool-18.
    """

    p: IntegerAttr

    tolerance = 1e-4  # p-th powers and roots of f32
    cases = (*pool_cases(p=2), *pool_cases(p=1)[:2], *pool_cases(p=3)[:2])

    @staticmethod
    def infer(data: RankedTensorType, p: int = 2, **attrs: Any) -> RankedTensorType:
        _check_exponent(p)
        return PoolOp.infer(data, **attrs)

    @staticmethod
    @computed_wide
    def reference(data: np.ndarray, p: int = 2, **attrs: Any) -> np.ndarray:
        return extract_windows(np.abs(data) ** p, 0.0, attrs).sum(0) ** (1 / p)

    def legalize(self, b: Builder) -> Buffer:
        x, p = b.buffer(self.data), self.p.value
        shape, dtype = b.results[0]
        window = pool_window(self.python_attrs())
        total = reduce_windows(
            b, x, window, shape, "add", 0.0, lambda v: _power(b, v, p)
        )
        return b.map(
            lambda v: b.cast(_root(b, v, p), dtype), total, dtype=dtype, name="pth_root"
        )

    @staticmethod
    @onnx_rule("LpPool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        x, attrs = onnx_pool(node, fill=0.0)
        return LpPoolOp(x, p=_exponent(node), **attrs).y


class GlobalLpPoolOp(Relax.Operation, name="global_lp_pool"):
    """The p-norm of every channel over the spatial axes: (sum |x|^p)^(1/p).

    Attributes:
        p: the order of the norm, 1 or more.
    Shapes:
        x: [n, c, spatial...]; y: [n, c, 1...].
    Source: ONNX GlobalLpPool-2.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    p: IntegerAttr

    tolerance = 1e-4  # p-th powers and roots of f32
    cases = (Case((2, 3, 5, 7), p=1), Case((2, 3, 5, 7), p=2), Case((1, 2, 9), p=3))

    @staticmethod
    def infer(x: RankedTensorType, p: int = 2) -> RankedTensorType:
        _check_exponent(p)
        if x.rank < 3:
            raise ValueError(f"expected rank 3 or more, got {x.rank}")
        shape = shapes.reduced(tensors.shape_of(x), range(2, x.rank), keepdims=True)
        return tensors.tensor_type(shape, tensors.dtype_of(x))

    @staticmethod
    @computed_wide
    def reference(x: np.ndarray, p: int = 2) -> np.ndarray:
        total = (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True)
        return total ** (1 / p)

    def legalize(self, b: Builder) -> Buffer:
        (x,), p, dtype = b.inputs, self.p.value, b.results[0][1]
        total = b.reduce(
            "add",
            x,
            range(2, x.rank),
            fn=lambda v: _power(b, b.widen(v), p),
            dtype=b.accumulator_dtype(x.dtype),
            name="sum",
        )
        return b.map(
            lambda v: b.cast(_root(b, v, p), dtype), total, dtype=dtype, name="pth_root"
        )

    @staticmethod
    @onnx_rule("GlobalLpPool", since=1)
    def from_onnx(node: OnnxNode) -> ir.Value:
        return GlobalLpPoolOp(node.input(0), p=_exponent(node)).y


def _exponent(node: OnnxNode) -> int:
    """The attribute p, a float in early versions.

    Raises:
        NotImplementedError: p is not an integer.
    """
    p = node.attr("p", 2)
    if p != int(p):
        raise NotImplementedError(f"attribute `p`: expected an integer, got {p}")
    return int(p)


def _check_exponent(p: int) -> None:
    if p < 1:
        raise ValueError(f"bad p: expected 1 or more, got {p}")


def _power(b: Builder, v: Scalar, p: int) -> Scalar:
    """|v|^p."""
    base = result = b.math("absf", v)
    if p > _MAX_UNROLLED_POWER:
        return b.math("powf", base, b.constant(float(p), base.dtype))
    for _ in range(p - 1):
        result = result * base
    return result


def _root(b: Builder, v: Scalar, p: int) -> Scalar:
    """v^(1/p) for v >= 0."""
    if p <= 2:
        return v if p == 1 else b.math("sqrt", v)
    return b.math("exp", b.math("log", v) / p)
