"""Operators on two tensors whose shapes broadcast, and on numbers."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.objects import functions, prim
from relax_mlir.objects.prim import PrimExpr, convert
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.te.tensor import register_overload
from relax_mlir.topi.sizes import as_int, elements, is_float, is_one, same_size
from relax_mlir.topi.tag import BROADCAST, ELEMWISE

__all__ = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
    "trunc_divide",
    "trunc_mod",
]

Binary = Callable[[Any, Any], Any]


def common_shape(a: Sequence[Any], b: Sequence[Any]) -> list[PrimExpr]:
    """The shape that two shapes broadcast to.

    Where nobody knows whether two sizes are equal, a number wins over a variable.

    Raises:
        ValueError: they do not broadcast.
    """
    rank = builtins.max(len(a), len(b))
    left = [*(None for _ in range(rank - len(a))), *a]
    right = [*(None for _ in range(rank - len(b))), *b]
    return [
        _common(x, y, a, b)
        if x is not None and y is not None
        else convert(y if x is None else x)
        for x, y in zip(left, right, strict=True)
    ]


def _common(x: Any, y: Any, a: Sequence[Any], b: Sequence[Any]) -> PrimExpr:
    x, y = prim.matched(convert(x), convert(y))
    if same_size(x, y) or is_one(y):
        return x
    if is_one(x):
        return y
    if as_int(x) is None and as_int(y) is None:
        return functions.max(x, y)
    if as_int(x) is None or as_int(y) is None:
        return y if as_int(x) is None else x
    raise ValueError(f"shapes {list(a)} and {list(b)} do not broadcast: {x} and {y}")


def element_of(
    tensor: Tensor, indices: Sequence[Term], shape: Sequence[Term]
) -> PrimExpr:
    """The element of a tensor that broadcasts to ``shape``."""
    skipped = len(shape) - tensor.ndim
    own = [
        prim.const(0, index.dtype) if is_one(size) and not is_one(whole) else index
        for index, size, whole in zip(
            indices[skipped:], tensor.shape, shape[skipped:], strict=True
        )
    ]
    return tensor(*own)


def broadcast_to(data: Tensor, shape: Sequence[Term]) -> Tensor:
    """``data`` repeated to a larger shape.

    Raises:
        ValueError: it has more dimensions, or they do not fit.
    """
    if len(shape) < data.ndim:
        raise ValueError(
            f"`{data.name}`: {list(data.shape)} does not fit {list(shape)}"
        )
    wide = common_shape(shape, data.shape)
    sizes = [
        convert(s) if as_int(s) is None else w for s, w in zip(shape, wide, strict=True)
    ]
    return elements(
        sizes, lambda i: element_of(data, i, sizes), "T_broadcast_to", BROADCAST
    )


def _operator(name: str, combine: Binary) -> Binary:
    def apply(lhs: Any, rhs: Any) -> Any:
        label = f"T_{name}"
        if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
            shape = common_shape(lhs.shape, rhs.shape)
            return elements(
                shape,
                lambda i: combine(element_of(lhs, i, shape), element_of(rhs, i, shape)),
                label,
                BROADCAST,
            )
        if isinstance(lhs, Tensor):
            other = _number(rhs, lhs)
            return elements(
                lhs.shape, lambda i: combine(lhs(*i), other), label, ELEMWISE
            )
        if isinstance(rhs, Tensor):
            other = _number(lhs, rhs)
            return elements(
                rhs.shape, lambda i: combine(other, rhs(*i)), label, ELEMWISE
            )
        return combine(convert(lhs), convert(rhs))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of tensors whose shapes broadcast, or of numbers."
    return apply


def _number(value: Any, tensor: Tensor) -> Any:
    """A number beside a tensor; of float64 tensors it has all its digits."""
    is_wide = isinstance(value, float) and tensor.dtype == "float64"
    return prim.const(value, "float64") if is_wide else convert(value)


def _kind(kind: type[prim.BinaryExpr]) -> Binary:
    return lambda a, b: prim.binary(kind, a, b)


def _bits(name: str) -> Binary:
    return getattr(functions, name)


def _floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return functions.floor(functions.div(a, b))
    return functions.floordiv(a, b)


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return a - _floor_divide(a, b) * b
    return functions.floormod(a, b)


def _trunc_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return functions.trunc(functions.div(a, b))
    return functions.truncdiv(a, b)


def _trunc_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return a - _trunc_divide(a, b) * b
    return functions.truncmod(a, b)


add = _operator("add", _kind(prim.Add))
subtract = _operator("subtract", _kind(prim.Sub))
multiply = _operator("multiply", _kind(prim.Mul))
divide = _operator("divide", functions.div)
floor_divide = _operator("floor_divide", _floor_divide)
trunc_divide = _operator("trunc_divide", _trunc_divide)
log_add_exp = _operator("log_add_exp", functions.logaddexp)
mod = _operator("mod", functions.truncmod)
floor_mod = _operator("floor_mod", _floor_mod)
trunc_mod = _operator("trunc_mod", _trunc_mod)
maximum = _operator("maximum", _kind(prim.Max))
minimum = _operator("minimum", _kind(prim.Min))
power = _operator("power", functions.power)
atan2 = _operator("atan2", functions.atan2)
left_shift = _operator("left_shift", _bits("shift_left"))
right_shift = _operator("right_shift", _bits("shift_right"))
greater, less = _operator("greater", _kind(prim.GT)), _operator("less", _kind(prim.LT))
equal = _operator("equal", _kind(prim.EQ))
not_equal = _operator("not_equal", _kind(prim.NE))
greater_equal = _operator("greater_equal", _kind(prim.GE))
less_equal = _operator("less_equal", _kind(prim.LE))
logical_and = _operator("logical_and", _kind(prim.And))
logical_or = _operator("logical_or", _kind(prim.Or))
logical_xor = _operator("logical_xor", _bits("bitwise_xor"))
bitwise_and = _operator("bitwise_and", _bits("bitwise_and"))
bitwise_or = _operator("bitwise_or", _bits("bitwise_or"))
bitwise_xor = _operator("bitwise_xor", _bits("bitwise_xor"))


def logical_not(data: Tensor) -> Tensor:
    """The other truth value of every element."""
    return elements(data.shape, lambda i: prim.Not(data(*i)), "T_logical_not", ELEMWISE)


def bitwise_not(data: Tensor) -> Tensor:
    """The other bits of every element."""
    return elements(data.shape, lambda i: ~data(*i), "T_bitwise_not", ELEMWISE)


def _divided(lhs: Any, rhs: Any) -> Tensor:
    """``/`` of tensors, which of integers may mean two things."""
    types = [getattr(side, "dtype", None) for side in (lhs, rhs)]
    are_integers = [
        isinstance(side, int) if t is None else not is_float(t)
        for side, t in zip((lhs, rhs), types, strict=True)
    ]
    if all(are_integers):
        raise TypeError(
            "`/` of integers is ambiguous: use `topi.floor_divide` or `topi.divide`"
        )
    return divide(lhs, rhs)


for _name, _compute in (("add", add), ("subtract", subtract), ("multiply", multiply)):
    register_overload(_name, _compute)
register_overload("divide", _divided)
