"""Elementwise operators and activation functions."""

from __future__ import annotations

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.tvm.relax import op

__all__ = [
    "add",
    "astype",
    "divide",
    "equal",
    "exp",
    "floor",
    "gelu",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "log",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "prelu",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "sqrt",
    "square",
    "subtract",
    "tanh",
    "where",
]


def add(a: Tensor, b: Tensor, name: str = "add") -> Tensor:
    """Elementwise sum."""
    return wrap_nested(op.add(a.as_expr(), b.as_expr()), name)


def subtract(a: Tensor, b: Tensor, name: str = "subtract") -> Tensor:
    """Elementwise difference."""
    return wrap_nested(op.subtract(a.as_expr(), b.as_expr()), name)


def multiply(a: Tensor, b: Tensor, name: str = "mul") -> Tensor:
    """Elementwise product."""
    return wrap_nested(op.multiply(a.as_expr(), b.as_expr()), name)


def divide(a: Tensor, b: Tensor, name: str = "divide") -> Tensor:
    """Elementwise quotient."""
    return wrap_nested(op.divide(a.as_expr(), b.as_expr()), name)


def maximum(x1: Tensor, x2: Tensor, name: str = "maximum") -> Tensor:
    """Elementwise maximum."""
    return wrap_nested(op.maximum(x1.as_expr(), x2.as_expr()), name)


def minimum(x1: Tensor, x2: Tensor, name: str = "minimum") -> Tensor:
    """Elementwise minimum."""
    return wrap_nested(op.minimum(x1.as_expr(), x2.as_expr()), name)


def less(a: Tensor, b: Tensor, name: str = "less") -> Tensor:
    """Elementwise ``a < b``."""
    return wrap_nested(op.less(a.as_expr(), b.as_expr()), name)


def less_equal(a: Tensor, b: Tensor, name: str = "less_equal") -> Tensor:
    """Elementwise ``a <= b``."""
    return wrap_nested(op.less_equal(a.as_expr(), b.as_expr()), name)


def greater(a: Tensor, b: Tensor, name: str = "greater") -> Tensor:
    """Elementwise ``a > b``."""
    return wrap_nested(op.greater(a.as_expr(), b.as_expr()), name)


def greater_equal(a: Tensor, b: Tensor, name: str = "greater_equal") -> Tensor:
    """Elementwise ``a >= b``."""
    return wrap_nested(op.greater_equal(a.as_expr(), b.as_expr()), name)


def equal(a: Tensor, b: Tensor, name: str = "equal") -> Tensor:
    """Elementwise ``a == b``."""
    return wrap_nested(op.equal(a.as_expr(), b.as_expr()), name)


def not_equal(a: Tensor, b: Tensor, name: str = "not_equal") -> Tensor:
    """Elementwise ``a != b``."""
    return wrap_nested(op.not_equal(a.as_expr(), b.as_expr()), name)


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """Rectified linear unit: max(x, 0)."""
    return wrap_nested(op.nn.relu(x.as_expr()), name)


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """ReLU clipped at 6."""
    return wrap_nested(op.nn.relu6(x.as_expr()), name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """Sigmoid linear unit: x * sigmoid(x)."""
    return wrap_nested(op.nn.silu(x.as_expr()), name)


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """Elementwise sigmoid: 1 / (1 + exp(-x))."""
    return wrap_nested(op.sigmoid(x.as_expr()), name)


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """Elementwise hyperbolic tangent."""
    return wrap_nested(op.tanh(x.as_expr()), name)


def exp(x: Tensor, name: str = "exp") -> Tensor:
    """Elementwise exponential."""
    return wrap_nested(op.exp(x.as_expr()), name)


def log(x: Tensor, name: str = "log") -> Tensor:
    """Elementwise natural logarithm."""
    return wrap_nested(op.log(x.as_expr()), name)


def floor(x: Tensor, name: str = "floor") -> Tensor:
    """Elementwise floor."""
    return wrap_nested(op.floor(x.as_expr()), name)


def square(x: Tensor, name: str = "square") -> Tensor:
    """Elementwise square."""
    return wrap_nested(op.square(x.as_expr()), name)


def sqrt(x: Tensor, name: str = "sqrt") -> Tensor:
    """Elementwise square root."""
    return wrap_nested(op.sqrt(x.as_expr()), name)


def negative(x: Tensor, name: str = "neg") -> Tensor:
    """Elementwise negation."""
    return wrap_nested(op.negative(x.as_expr()), name)


def gelu(x: Tensor, approximate: str | None = None, name: str = "gelu") -> Tensor:
    """Gaussian error linear unit.

    Args:
        x: the tensor.
        approximate: ``tanh`` for the tanh approximation; else the error function.
        name: name of the result variable.
    """
    function = op.nn.gelu_tanh if approximate == "tanh" else op.nn.gelu
    return wrap_nested(function(x.as_expr()), name)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """Softmax along an axis."""
    return wrap_nested(op.nn.softmax(x.as_expr(), axis), name)


def softplus(
    x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str = "softplus"
) -> Tensor:
    """Softplus: log(1 + exp(beta x)) / beta; x where ``beta x`` exceeds the threshold."""
    value = op.nn.softplus(x.as_expr(), beta=beta, threshold=threshold)
    return wrap_nested(value, name)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """Parametric ReLU with one slope ``alpha`` per channel."""
    return wrap_nested(op.nn.prelu(x.as_expr(), alpha.as_expr()), name)


def astype(x: Tensor, dtype: str, name: str = "astype") -> Tensor:
    """Cast to another element type; ``x`` itself if it has that type."""
    if x.dtype == dtype:
        return x
    return wrap_nested(op.astype(x.as_expr(), dtype), name)


def where(condition: Tensor, x1: Tensor, x2: Tensor, name: str = "where") -> Tensor:
    """Elementwise select: ``x1`` where the condition is nonzero, else ``x2``."""
    mask = astype(condition, "bool").as_expr()
    return wrap_nested(op.where(mask, x1.as_expr(), x2.as_expr()), name)
