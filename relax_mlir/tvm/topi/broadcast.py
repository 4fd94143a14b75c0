"""Binary operators with broadcasting, on tensors and scalars."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, convert, intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.te.tensor import register_overload
from relax_mlir.tvm.topi.sizes import (
    as_int,
    compute_tensor,
    is_float,
    is_one,
    same_size,
)
from relax_mlir.tvm.topi.tag import BROADCAST, ELEMWISE

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


def broadcast_shape(a: Sequence[Any], b: Sequence[Any]) -> list[PrimExpr]:
    """The shape to which two shapes broadcast.

    If the equality of two sizes cannot be decided, a constant wins over a symbolic size.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    rank = builtins.max(len(a), len(b))
    left = [*(None for _ in range(rank - len(a))), *a]
    right = [*(None for _ in range(rank - len(b))), *b]
    return [
        _broadcast_size(x, y, a, b)
        if x is not None and y is not None
        else convert(y if x is None else x)
        for x, y in zip(left, right, strict=True)
    ]


def _broadcast_size(x: Any, y: Any, a: Sequence[Any], b: Sequence[Any]) -> PrimExpr:
    x, y = prim.matched(convert(x), convert(y))
    if same_size(x, y) or is_one(y):
        return x
    if is_one(x):
        return y
    if as_int(x) is None and as_int(y) is None:
        return intrinsics.max(x, y)
    if as_int(x) is None or as_int(y) is None:
        return y if as_int(x) is None else x
    raise ValueError(f"shapes {list(a)} and {list(b)} do not broadcast: {x} and {y}")


def broadcast_element(
    tensor: Tensor, indices: Sequence[PrimExprLike], shape: Sequence[PrimExprLike]
) -> PrimExpr:
    """Element at ``indices`` of a tensor broadcast to ``shape``."""
    leading = len(shape) - tensor.ndim
    source_indices = [
        prim.const(0, index.dtype) if is_one(size) and not is_one(out_size) else index
        for index, size, out_size in zip(
            indices[leading:], tensor.shape, shape[leading:], strict=True
        )
    ]
    return tensor(*source_indices)


def broadcast_to(data: Tensor, shape: Sequence[PrimExprLike]) -> Tensor:
    """Broadcast ``data`` to a shape.

    Raises:
        ValueError: ``data`` has more dimensions, or its sizes do not broadcast.
    """
    if len(shape) < data.ndim:
        raise ValueError(
            f"`{data.name}`: shape {list(data.shape)} does not broadcast to {list(shape)}"
        )
    broadcast = broadcast_shape(shape, data.shape)
    sizes = [
        convert(s) if as_int(s) is None else w
        for s, w in zip(shape, broadcast, strict=True)
    ]
    return compute_tensor(
        sizes, lambda i: broadcast_element(data, i, sizes), "T_broadcast_to", BROADCAST
    )


def _binary_operator(name: str, compute: Binary) -> Binary:
    def apply(lhs: Any, rhs: Any) -> Any:
        label = f"T_{name}"
        if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
            shape = broadcast_shape(lhs.shape, rhs.shape)
            return compute_tensor(
                shape,
                lambda i: compute(
                    broadcast_element(lhs, i, shape), broadcast_element(rhs, i, shape)
                ),
                label,
                BROADCAST,
            )
        if isinstance(lhs, Tensor):
            scalar = _scalar_operand(rhs, lhs)
            return compute_tensor(
                lhs.shape, lambda i: compute(lhs(*i), scalar), label, ELEMWISE
            )
        if isinstance(rhs, Tensor):
            scalar = _scalar_operand(lhs, rhs)
            return compute_tensor(
                rhs.shape, lambda i: compute(scalar, rhs(*i)), label, ELEMWISE
            )
        return compute(convert(lhs), convert(rhs))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"Elementwise ``{name}`` with broadcasting; of scalars, an expression."
    )
    return apply


def _scalar_operand(value: Any, tensor: Tensor) -> Any:
    """A scalar operand as an expression; a float64 constant beside float64 tensors."""
    is_float64 = isinstance(value, float) and tensor.dtype == "float64"
    return prim.const(value, "float64") if is_float64 else convert(value)


def _binary(kind: type[prim.BinaryExpr]) -> Binary:
    return lambda a, b: prim.binary(kind, a, b)


def _intrinsic(name: str) -> Binary:
    return getattr(intrinsics, name)


def _floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return intrinsics.floor(intrinsics.div(a, b))
    return intrinsics.floordiv(a, b)


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return a - _floor_divide(a, b) * b
    return intrinsics.floormod(a, b)


def _trunc_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return intrinsics.trunc(intrinsics.div(a, b))
    return intrinsics.truncdiv(a, b)


def _trunc_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_float(a.dtype):
        return a - _trunc_divide(a, b) * b
    return intrinsics.truncmod(a, b)


add = _binary_operator("add", _binary(prim.Add))
subtract = _binary_operator("subtract", _binary(prim.Sub))
multiply = _binary_operator("multiply", _binary(prim.Mul))
divide = _binary_operator("divide", intrinsics.div)
floor_divide = _binary_operator("floor_divide", _floor_divide)
trunc_divide = _binary_operator("trunc_divide", _trunc_divide)
log_add_exp = _binary_operator("log_add_exp", intrinsics.logaddexp)
mod = _binary_operator("mod", intrinsics.truncmod)
floor_mod = _binary_operator("floor_mod", _floor_mod)
trunc_mod = _binary_operator("trunc_mod", _trunc_mod)
maximum = _binary_operator("maximum", _binary(prim.Max))
minimum = _binary_operator("minimum", _binary(prim.Min))
power = _binary_operator("power", intrinsics.power)
atan2 = _binary_operator("atan2", intrinsics.atan2)
left_shift = _binary_operator("left_shift", _intrinsic("shift_left"))
right_shift = _binary_operator("right_shift", _intrinsic("shift_right"))
greater, less = (
    _binary_operator("greater", _binary(prim.GT)),
    _binary_operator("less", _binary(prim.LT)),
)
equal = _binary_operator("equal", _binary(prim.EQ))
not_equal = _binary_operator("not_equal", _binary(prim.NE))
greater_equal = _binary_operator("greater_equal", _binary(prim.GE))
less_equal = _binary_operator("less_equal", _binary(prim.LE))
logical_and = _binary_operator("logical_and", _binary(prim.And))
logical_or = _binary_operator("logical_or", _binary(prim.Or))
logical_xor = _binary_operator("logical_xor", _intrinsic("bitwise_xor"))
bitwise_and = _binary_operator("bitwise_and", _intrinsic("bitwise_and"))
bitwise_or = _binary_operator("bitwise_or", _intrinsic("bitwise_or"))
bitwise_xor = _binary_operator("bitwise_xor", _intrinsic("bitwise_xor"))


def logical_not(data: Tensor) -> Tensor:
    """Elementwise logical negation."""
    return compute_tensor(
        data.shape, lambda i: prim.Not(data(*i)), "T_logical_not", ELEMWISE
    )


def bitwise_not(data: Tensor) -> Tensor:
    """Elementwise bitwise complement."""
    return compute_tensor(data.shape, lambda i: ~data(*i), "T_bitwise_not", ELEMWISE)


def _divide_operator(lhs: Any, rhs: Any) -> Tensor:
    """The ``/`` operator on tensors; ambiguous, hence an error, on integers."""
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
register_overload("divide", _divide_operator)
