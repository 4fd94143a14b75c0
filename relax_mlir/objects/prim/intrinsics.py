"""Scalar intrinsics of ``tir`` and ``te``: ``exp``, ``if_then_else``, ``sum``, ...

They fold the constants that TVM's fold, so that equal constructions compare equal.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import (
    Call,
    CommReducer,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Reduce,
    Select,
    const,
    convert,
)
from relax_mlir.objects.prim.constants import type_name
from relax_mlir.objects.prim.lanes import element_type, with_lanes

__all__ = [
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "ceildiv",
    "clz",
    "comm_reducer",
    "copysign",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "fabs",
    "floor",
    "floordiv",
    "floormod",
    "fma",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "nextafter",
    "popcount",
    "pow",
    "power",
    "prod",
    "reinterpret",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
    "vscale",
]


def _function(name: str, *, is_strict: bool = False) -> Callable[[Any], PrimExpr]:
    def apply(x: Any) -> PrimExpr:
        x = convert(x)
        if is_strict and not _is_float(x.dtype):
            raise TypeError(
                f"`{name}`: expected a floating-point number, got {x.dtype}"
            )
        return Call(x.dtype, name, [x])

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of a number."
    return apply


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


exp, exp2, exp10 = map(_function, ("exp", "exp2", "exp10"))
log, log2, log10, log1p = map(_function, ("log", "log2", "log10", "log1p"))
fabs = _function("fabs")
erf, tanh, sigmoid = map(_function, ("erf", "tanh", "sigmoid"))
sinh, cosh, asin, acos = map(_function, ("sinh", "cosh", "asin", "acos"))
atan, asinh, acosh, atanh = map(_function, ("atan", "asinh", "acosh", "atanh"))
sqrt, rsqrt, popcount, clz = map(_function, ("sqrt", "rsqrt", "popcount", "clz"))
tan, sin, cos = (_function(name, is_strict=True) for name in ("tan", "sin", "cos"))


def rounded_constant(fold: Callable[[float], float], expr: PrimExpr) -> PrimExpr | None:
    """A finite float constant rounded by ``fold``, keeping its sign; otherwise None."""
    if not isinstance(expr, FloatImm) or not math.isfinite(expr.value):
        return None
    return const(math.copysign(fold(expr.value), expr.value), expr.dtype)


def _rounding(name: str, fold: Callable[[float], float]) -> Callable[..., PrimExpr]:
    def apply(x: Any, span: object = None) -> PrimExpr:
        x = convert(x)
        if not _is_float(x.dtype):
            return x
        folded = rounded_constant(fold, x)
        return Call(x.dtype, name, [x]) if folded is None else folded

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of a number; an integer is returned unchanged."
    return apply


floor, ceil = _rounding("floor", math.floor), _rounding("ceil", math.ceil)
trunc = _rounding("trunc", math.trunc)
round = _rounding("round", builtins.round)
nearbyint = _rounding("nearbyint", builtins.round)


def _binary(name: str) -> Callable[[Any, Any], PrimExpr]:
    def apply(a: Any, b: Any) -> PrimExpr:
        a = convert(a)
        return Call(a.dtype, name, [a, convert(b)])

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of two numbers."
    return apply


atan2, nextafter, hypot = map(_binary, ("atan2", "nextafter", "hypot"))
copysign, ldexp, fmod = map(_binary, ("copysign", "ldexp", "fmod"))


def fma(x: Any, y: Any, z: Any) -> PrimExpr:
    """``x * y + z`` with one rounding (fused multiply-add)."""
    x = convert(x)
    return Call(x.dtype, "fma", [x, y, z])


def abs(x: Any, span: object = None) -> PrimExpr:
    """The absolute value."""
    x = convert(x)
    if isinstance(x, (IntImm, FloatImm)):
        return const(builtins.abs(x.value), x.dtype)
    if x.dtype.startswith("uint"):
        return x
    if x.is_integer:
        return Select(x >= 0, x, prim.Sub(const(0, x.dtype), x))
    return Call(x.dtype, "fabs", [x])


def isnan(x: Any, span: object = None) -> PrimExpr:
    """Whether a number is NaN."""
    x = convert(x)
    truth = with_lanes("bool", x.dtype)
    if not _is_float(x.dtype):
        return const(False, truth)
    if isinstance(x, FloatImm):
        return const(math.isnan(x.value), truth)
    is_narrow = element_type(x.dtype).endswith("16")
    wide = prim.cast(with_lanes("float32", x.dtype), x) if is_narrow else x
    return Call(truth, "isnan", [wide])


def isinf(x: Any, span: object = None) -> PrimExpr:
    """Whether a number is infinite."""
    x = convert(x)
    if not _is_float(x.dtype):
        return const(False, "bool")
    if isinstance(x, FloatImm):
        return const(math.isinf(x.value), "bool")
    return all(abs(x).equal(infinity(x.dtype)), prim.Not(isnan(x)))


def isfinite(x: Any, span: object = None) -> PrimExpr:
    """Whether a number is neither infinite nor NaN."""
    x = convert(x)
    if not _is_float(x.dtype):
        return const(True, "bool")
    if isinstance(x, FloatImm):
        return const(math.isfinite(x.value), "bool")
    return all(prim.Not(isinf(x)), prim.Not(isnan(x)))


def power(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x`` to the ``y``.

    Raises:
        TypeError: the operands are integers.
    """
    x, y = prim.matched(x, y)
    if not _is_float(x.dtype):
        raise OperatorError(f"`power`: expected a floating-point number, got {x.dtype}")
    return Call(x.dtype, "pow", [x, y])


pow = power


def logaddexp(a: Any, b: Any, span: object = None) -> PrimExpr:
    """``log(exp(a) + exp(b))``."""
    return log(exp(a) + exp(b))


def if_then_else(cond: Any, t: Any, f: Any, span: object = None) -> PrimExpr:
    """One of two values; the other is not evaluated.

    Raises:
        TypeError: the condition is not boolean.
    """
    cond = convert(cond)
    if cond.dtype != "bool":
        raise OperatorError(
            f"`if_then_else`: expected a bool condition, got {cond.dtype}"
        )
    t, f = prim.matched(t, f)
    if isinstance(cond, IntImm):
        return t if cond.value else f
    return Call(t.dtype, "if_then_else", [cond, t, f])


def likely(cond: Any, span: object = None) -> PrimExpr:
    """A branch hint: the condition is probably true."""
    cond = convert(cond)
    return cond if isinstance(cond, IntImm) else Call("bool", "likely", [cond])


def reinterpret(dtype: str, value: Any, span: object = None) -> PrimExpr:
    """The bits of a value reinterpreted in another type."""
    value = convert(value)
    return value if value.dtype == dtype else Call(dtype, "reinterpret", [value])


def all(*args: Any, span: object = None) -> PrimExpr:
    """Conjunction of conditions.

    Raises:
        ValueError: no condition is given.
        OperatorError: a condition is not boolean.
    """
    return _folded(prim.And, "all", args)


def any(*args: Any, span: object = None) -> PrimExpr:
    """Disjunction of conditions.

    Raises:
        ValueError: no condition is given.
        OperatorError: a condition is not boolean.
    """
    return _folded(prim.Or, "any", args)


def _folded(kind: type[prim.BinaryExpr], name: str, args: Sequence[Any]) -> PrimExpr:
    if not args:
        raise ValueError(f"`{name}`: expected at least one condition")
    result, *rest = map(convert, args)
    wrong = [t for t in (result, *rest) if element_type(t.dtype) != "bool"]
    if rest and wrong:
        raise OperatorError(f"`{name}`: expected truth values, got {wrong[0].dtype}")
    for expr in rest:
        result = prim.binary(kind, result, expr)
    return result


def _operation(kind: type[prim.BinaryExpr], meaning: str) -> Callable[..., PrimExpr]:
    def apply(a: Any, b: Any, span: object = None) -> PrimExpr:
        result = prim.binary(kind, a, b)
        if result is NotImplemented:
            raise TypeError(
                f"expected two scalar expressions, got {short_repr(a)} and {short_repr(b)}"
            )
        return result

    apply.__doc__ = meaning
    return apply


floordiv = _operation(prim.FloorDiv, "``a // b``, rounded down.")
floormod = _operation(prim.FloorMod, "The remainder with the sign of ``b``.")
indexdiv = _operation(prim.FloorDiv, "``a // b`` of non-negative indices.")
indexmod = _operation(prim.FloorMod, "``a % b`` of non-negative indices.")
div = _operation(prim.Div, "``a / b``; truncates for integers.")
truncdiv = _operation(prim.Div, "``a / b`` of integers, rounded towards zero.")
truncmod = _operation(prim.Mod, "The remainder with the sign of ``a``.")


def ceildiv(lhs: Any, rhs: Any, span: object = None) -> PrimExpr:
    """``lhs / rhs`` of integers, rounded up.

    It is written ``(lhs + rhs - 1) // rhs``.
    """
    lhs, rhs = prim.matched(lhs, rhs)
    return (lhs + rhs - 1) // rhs


def bitwise_and(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x & y``."""
    return convert(x) & convert(y)


def bitwise_or(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x | y``."""
    return convert(x) | convert(y)


def bitwise_xor(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x ^ y``."""
    return convert(x) ^ convert(y)


def bitwise_not(x: Any, span: object = None) -> PrimExpr:
    """``~x``."""
    return ~convert(x)


def shift_left(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x << y``."""
    return convert(x) << convert(y)


def shift_right(x: Any, y: Any, span: object = None) -> PrimExpr:
    """``x >> y``."""
    return convert(x) >> convert(y)


def _limits(dtype: str) -> tuple[Any, Any]:
    """The least and the greatest finite number of a type.

    Raises:
        OperatorError: it is not a numeric type.
    """
    if dtype == "bool":
        return 0, 1
    if dtype.startswith(("int", "uint")):
        bits = int(digits) if (digits := dtype.lstrip("uint")).isdigit() else 0
        if not 1 <= bits <= _MOST_BITS:
            raise OperatorError(f"expected a type of integers, got {short_repr(dtype)}")
        is_signed = dtype.startswith("int")
        top = 1 << (bits - is_signed)
        return (-top if is_signed else 0), top - 1
    plain = ("float16", "float32", "float64")
    kind = dtype if dtype in plain else getattr(ml_dtypes, dtype, None)
    if kind is None or not dtype.startswith(("float", "bfloat")):
        raise OperatorError(f"expected a type of numbers, got {short_repr(dtype)}")
    info = ml_dtypes.finfo(kind)
    return float(info.min), float(info.max)


_MOST_BITS = 64  # the widest integer type


def min_value(dtype: Any, span: object = None) -> PrimExpr:
    """The least finite number of a type."""
    return const(_limits(type_name(dtype))[0], type_name(dtype))


def max_value(dtype: Any, span: object = None) -> PrimExpr:
    """The largest finite number of a type."""
    return const(_limits(type_name(dtype))[1], type_name(dtype))


def infinity(dtype: str, span: object = None) -> PrimExpr:
    """The infinity of a floating-point type."""
    return const(math.inf, dtype)


Combine = Callable[[Any, Any], Any]  # of two values, or of two tuples of values


def comm_reducer(
    fcombine: Combine, fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A commutative reducer: reduces an expression over axes, or folds its arguments.

    Args:
        fcombine: combines two values, or two tuples of values.
        fidentity: the identity elements for given element types.
        name: name of the reduction.
    """

    def combine(lhs: Sequence[PrimExpr], rhs: Sequence[PrimExpr]) -> list[PrimExpr]:
        if len(lhs) == 1:
            return [convert(fcombine(lhs[0], rhs[0]))]
        return [convert(v) for v in fcombine(list(lhs), list(rhs))]

    def identity(dtypes: Sequence[str]) -> list[PrimExpr]:
        result = fidentity(*dtypes)
        return [
            convert(v)
            for v in (result if isinstance(result, (tuple, list)) else [result])
        ]

    combiner = CommReducer(name, combine, identity)

    def reducer(
        expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any
    ) -> Any:
        if isinstance(axis, (IterVar, list, tuple)):
            return _reduce(combiner, expr, axis, where, init)
        values = [axis, *(v for v in (where, init, *args) if v is not None)]
        result = convert(expr)
        for value in values:
            result = fcombine(result, convert(value))
        return result

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"Reduce an expression over axes by {name}, or fold arguments."
    return reducer


def _reduce(combiner: CommReducer, expr: Any, axis: Any, where: Any, init: Any) -> Any:
    is_many = isinstance(expr, (tuple, list))
    source = [convert(e) for e in (expr if is_many else [expr])]
    if not source:
        raise ValueError(
            f"`{combiner.name}`: expected an expression to reduce, got none"
        )
    axes = axis if isinstance(axis, (tuple, list)) else [axis]
    for one in axes:
        if not isinstance(one, IterVar) or one.iter_type != IterVar.CommReduce:
            raise ValueError(
                f"`{combiner.name}`: expected a reduce axis, got {short_repr(one)}"
            )
    condition = None if where is None else convert(where)
    start = init if isinstance(init, (tuple, list)) else [] if init is None else [init]
    starts = [convert(v) for v in start]
    result = [
        Reduce(combiner, source, axes, condition, number, starts)
        for number in range(len(source))
    ]
    return tuple(result) if is_many and len(result) > 1 else result[0]


def _min_or_max(kind: type[prim.BinaryExpr]) -> Combine:
    return lambda a, b: prim.binary(kind, a, b)


sum = comm_reducer(lambda a, b: a + b, lambda t: const(0, t), name="sum")
prod = comm_reducer(lambda a, b: a * b, lambda t: const(1, t), name="prod")
max = comm_reducer(_min_or_max(prim.Max), min_value, name="max")
min = comm_reducer(_min_or_max(prim.Min), max_value, name="min")


def vscale() -> PrimExpr:
    """The multiple of the minimum vector length that the machine implements."""
    return Call("int32", "vscale", [])
