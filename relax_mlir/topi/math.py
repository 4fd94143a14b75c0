"""Operators that compute every element from one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.te.tensor import register_overload
from relax_mlir.topi.sizes import elements, is_float
from relax_mlir.topi.tag import ELEMWISE

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


def _each(x: Tensor, compute: Callable[[Any], Any]) -> Tensor:
    return te.compute(x.shape, lambda *i: compute(x(*i)), tag=ELEMWISE)


def _function(
    name: str,
    compute: Callable[[Any], PrimExpr] | None = None,
    *,
    is_strict: bool = False,
    widens: bool = False,
) -> Callable[[Tensor], Tensor]:
    """An operator of one tensor.

    Args:
        name: of the operator, and of the function of scalars if that is left out.
        compute: from an element to an element.
        is_strict: whether integers are refused.
        widens: whether signed integers are made float32 first.
    """
    element = compute or getattr(functions, name)

    def apply(x: Tensor) -> Tensor:
        if is_strict and not is_float(x.dtype):
            raise TypeError(f"`{name}`: expected floating-point numbers, got {x.dtype}")
        if widens and x.dtype.startswith("int"):
            source = x
            x = te.compute(source.shape, lambda *i: source(*i).astype("float32"))
        return _each(x, element)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of every element."
    return apply


identity = _function("identity", lambda v: v)
negative = _function("negative", lambda v: -v)
exp, erf, tanh, tan = map(_function, ("exp", "erf", "tanh", "tan"))
cos, cosh, sin, sinh = map(_function, ("cos", "cosh", "sin", "sinh"))
acos, acosh = (_function(name, is_strict=True) for name in ("acos", "acosh"))
asin, asinh = (_function(name, is_strict=True) for name in ("asin", "asinh"))
atan, atanh = _function("atan"), _function("atanh", is_strict=True)
floor, ceil, trunc = map(_function, ("floor", "ceil", "trunc"))
round = _function("round", functions.nearbyint)
abs, isnan, isfinite, isinf = map(_function, ("abs", "isnan", "isfinite", "isinf"))
log, log2, log10 = (_function(name, widens=True) for name in ("log", "log2", "log10"))
sqrt, rsqrt = (_function(name, widens=True) for name in ("sqrt", "rsqrt"))
sigmoid = _function("sigmoid")


def sign(x: Tensor) -> Tensor:
    """1, 0 or -1 as every element is positive, zero or negative."""

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        value, zero = x(*indices), const(0, x.dtype)
        below = Select(value < zero, const(-1, x.dtype), zero)
        return Select(value > zero, const(1, x.dtype), below)

    return elements(x.shape, element, "T_sign", ELEMWISE)


def clip(x: Tensor, a_min: Term, a_max: Term) -> Tensor:
    """Every element, or the bound that it is beyond."""

    def bound(value: Any) -> PrimExpr:
        is_term = isinstance(value, PrimExpr)
        return prim.cast(x.dtype, value) if is_term else const(value, x.dtype)

    low, high = bound(a_min), bound(a_max)
    return _each(x, lambda v: functions.max(functions.min(v, high), low))


def cast(x: Any, dtype: str, span: object = None) -> Any:
    """Every element, or the number, in another type."""
    if isinstance(x, Tensor):
        return _each(x, lambda v: v.astype(dtype))
    return prim.cast(dtype, x)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The same bits as numbers of another type."""
    return elements(
        x.shape, lambda i: functions.reinterpret(dtype, x(*i)), "tensor", ELEMWISE
    )


def ceil_log2(x: Any) -> PrimExpr:
    """The logarithm of a size to the base 2, rounded up."""
    term = prim.convert(x)
    if is_float(term.dtype):
        return functions.ceil(functions.log2(term))
    wide = prim.cast("float64", term)
    return prim.cast(term.dtype, functions.ceil(functions.log2(wide)))


register_overload("cast", cast)
