"""Unary elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, const, intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.te.tensor import register_overload
from relax_mlir.tvm.topi.sizes import compute_tensor, is_float
from relax_mlir.tvm.topi.tag import ELEMWISE

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cast",
    "ceil",
    "ceil_log2",
    "clip",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "negative",
    "reinterpret",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def _elementwise(x: Tensor, compute: Callable[[Any], Any]) -> Tensor:
    return te.compute(x.shape, lambda *i: compute(x(*i)), tag=ELEMWISE)


def _unary_operator(
    name: str,
    compute: Callable[[Any], PrimExpr] | None = None,
    *,
    is_strict: bool = False,
    widens: bool = False,
) -> Callable[[Tensor], Tensor]:
    """Make a unary elementwise operator.

    Args:
        name: name of the operator, and by default of the scalar intrinsic.
        compute: the scalar function; by default the intrinsic ``name``.
        is_strict: whether integers are rejected.
        widens: whether signed integers are converted to float32 first.
    """
    element = compute or getattr(intrinsics, name)

    def apply(x: Tensor) -> Tensor:
        if is_strict and not is_float(x.dtype):
            raise TypeError(f"`{name}`: expected floating-point numbers, got {x.dtype}")
        if widens and x.dtype.startswith("int"):
            integers = x
            x = te.compute(integers.shape, lambda *i: integers(*i).astype("float32"))
        return _elementwise(x, element)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Elementwise ``{name}``."
    return apply


identity = _unary_operator("identity", lambda v: v)
negative = _unary_operator("negative", lambda v: -v)
exp, erf, tanh, tan = map(_unary_operator, ("exp", "erf", "tanh", "tan"))
cos, cosh, sin, sinh = map(_unary_operator, ("cos", "cosh", "sin", "sinh"))
acos, acosh = (_unary_operator(name, is_strict=True) for name in ("acos", "acosh"))
asin, asinh = (_unary_operator(name, is_strict=True) for name in ("asin", "asinh"))
atan, atanh = _unary_operator("atan"), _unary_operator("atanh", is_strict=True)
floor, ceil, trunc = map(_unary_operator, ("floor", "ceil", "trunc"))
round = _unary_operator("round", intrinsics.nearbyint)
abs, isnan, isfinite, isinf = map(
    _unary_operator, ("abs", "isnan", "isfinite", "isinf")
)
log, log2, log10 = (
    _unary_operator(name, widens=True) for name in ("log", "log2", "log10")
)
sqrt, rsqrt = (_unary_operator(name, widens=True) for name in ("sqrt", "rsqrt"))
sigmoid = _unary_operator("sigmoid")


def sign(x: Tensor) -> Tensor:
    """Elementwise sign: 1, 0 or -1."""

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        value, zero = x(*indices), const(0, x.dtype)
        below = Select(value < zero, const(-1, x.dtype), zero)
        return Select(value > zero, const(1, x.dtype), below)

    return compute_tensor(x.shape, element, "T_sign", ELEMWISE)


def clip(x: Tensor, a_min: PrimExprLike, a_max: PrimExprLike) -> Tensor:
    """Clamp every element to ``[a_min, a_max]``."""

    def bound(value: Any) -> PrimExpr:
        is_expr = isinstance(value, PrimExpr)
        return prim.cast(x.dtype, value) if is_expr else const(value, x.dtype)

    low, high = bound(a_min), bound(a_max)
    return _elementwise(x, lambda v: intrinsics.max(intrinsics.min(v, high), low))


def cast(x: Any, dtype: str, span: object = None) -> Any:
    """Convert a tensor or an expression to another element type."""
    if isinstance(x, Tensor):
        return _elementwise(x, lambda v: v.astype(dtype))
    return prim.cast(dtype, x)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """Bit cast of every element to another type of the same width."""
    return compute_tensor(
        x.shape, lambda i: intrinsics.reinterpret(dtype, x(*i)), "tensor", ELEMWISE
    )


def ceil_log2(x: Any) -> PrimExpr:
    """Base-2 logarithm of an expression, rounded up."""
    expr = prim.convert(x)
    if is_float(expr.dtype):
        return intrinsics.ceil(intrinsics.log2(expr))
    wide = prim.cast("float64", expr)
    return prim.cast(expr.dtype, intrinsics.ceil(intrinsics.log2(wide)))


register_overload("cast", cast)
