"""Scalar functions of scripts: casts, external calls and intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim import Call, PrimExpr, intrinsics
from relax_mlir.objects.prim.intrinsic_names import (
    LEADING_DTYPE,
    OPERAND_DTYPE,
    RESULT_DTYPE,
)
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad

__all__ = ["INTRINSICS", "intrinsic", "math_function"]


def math_function(name: str) -> Callable[..., Any]:
    """Returns the math function ``name``; calls accept and ignore ``dtype``."""
    function = getattr(intrinsics, name)

    def apply(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("dtype", None)
        return function(*args, **kwargs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = function.__doc__
    return apply


def intrinsic(name: str, dtype: str = "handle") -> Callable[..., PrimExpr]:
    """Returns a function that makes an opaque call of ``name`` with any arguments.

    Args:
        name: the intrinsic.
        dtype: default type of the result.
    """

    def apply(*args: Any, **kwargs: Any) -> PrimExpr:
        result_dtype = str(kwargs.pop("dtype", dtype))
        arguments = [*map(_argument, args), *map(_argument, kwargs.values())]
        return Call(result_dtype, name, arguments)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Makes a call of ``{name}``."
    return apply


def _argument(value: Any) -> Any:
    return value.data if isinstance(value, Buffer) else value


def cast(value: Any, dtype: Any, span: object = None) -> PrimExpr:
    """Casts a value; constants are folded."""
    return prim.cast(dtype_text(dtype, "`dtype`"), value)


def Cast(dtype: Any, value: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Makes a cast, also of a constant."""
    return prim.Cast(dtype_text(dtype, "`dtype`"), value)


def reinterpret(*args: Any, dtype: Any = None) -> PrimExpr:
    """Reinterprets the bits of a value as ``dtype``, the first or a keyword argument."""
    if dtype is not None:
        return intrinsics.reinterpret(dtype_text(dtype, "`dtype`"), *args)
    target, value = args
    return intrinsics.reinterpret(str(target), value)


def _with_leading_dtype(name: str) -> Callable[..., PrimExpr]:
    """Returns an intrinsic whose first argument is ``dtype``, unless given by keyword."""

    def apply(*args: Any, dtype: Any = None) -> PrimExpr:
        if dtype is None:
            dtype, *rest = args
            args = tuple(rest)
        return Call(
            dtype_text(dtype, "`dtype`") or "void", name, [_argument(a) for a in args]
        )

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Makes a call ``{name}(dtype, function, *args)``."
    return apply


def call_packed(*args: Any, span: object = None) -> PrimExpr:
    """Calls a packed function; the first argument is its name."""
    return Call("int32", "tvm_call_packed", [_argument(a) for a in args])


def call_intrin(dtype: Any, func_name: Any, *args: Any, **options: Any) -> PrimExpr:
    """Calls an intrinsic by name."""
    name = str(getattr(func_name, "name", func_name))
    return Call(dtype_text(dtype, "`dtype`"), name, [_argument(a) for a in args])


def address_of(obj: Any, span: object = None, dtype: Any = None) -> PrimExpr:
    """Takes the address of an element, or of the first one of a buffer."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, [0] * obj.ndim)
    return Call("handle", "address_of", [obj])


def ret(val: Any, span: object = None) -> PrimExpr:
    """Returns a value from the PrimFunc."""
    expr = prim.convert(val)
    return Call(expr.dtype, "ret", [expr])


def type_annotation(dtype: Any) -> PrimExpr:
    """Makes an argument that denotes a type."""
    return Call(dtype_text(dtype, "`dtype`"), "type_annotation", [])


def Select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:  # noqa: N802
    """Selects one of two values, both of which are evaluated."""
    return prim.Select(condition, true_value, false_value)


def Ramp(base: Any, stride: Any, lanes: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Makes the vector ``base``, ``base + stride``, ...; with one lane, ``base``."""
    count = prim.convert(lanes)
    is_one = isinstance(count, prim.IntImm) and count.value == 1
    return prim.convert(base) if is_one else prim.Ramp(base, stride, count)


def Broadcast(value: Any, lanes: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Makes the vector with ``value`` in every lane; with one lane, ``value``."""
    count = prim.convert(lanes)
    is_one = isinstance(count, prim.IntImm) and count.value == 1
    return prim.convert(value) if is_one else prim.Broadcast(value, count)


def Shuffle(vectors: Any, indices: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Permutes the lanes of vectors."""
    return prim.Shuffle(vectors, indices)


def index_map(mapping: Any, *, inverse_index_map: Any = None) -> Any:
    """Makes an index map of a Python function of the indices."""
    from relax_mlir.tvm.tir.schedule.index_map import IndexMap

    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map)


def target(target_config: Any, host: Any = None) -> Any:
    """Makes a target attribute from a name or a dictionary of properties."""
    from relax_mlir.tvm.relax.target import Target

    return Target(target_config) if host is None else Target(target_config, host)


def _with_operand_dtype(name: str, position: int) -> Callable[..., PrimExpr]:
    """Returns an intrinsic whose result type is that of the operand at ``position``."""

    def apply(*args: Any, dtype: Any = None, **options: Any) -> PrimExpr:
        if isinstance(args[0], str):  # the dtype, as in scripts that TVM prints
            dtype, *rest = args
            args = tuple(rest)
        result_dtype = dtype or prim.convert(args[position]).dtype
        return Call(str(result_dtype), name, [_argument(a) for a in args])

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Makes a call of ``{name}``."
    return apply


def Let(expr: Any, where: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Makes a let expression: ``expr`` with the variable in ``where`` bound to its value."""
    ((var, value),) = where.items()
    return prim.Let(var, value, expr)


INTRINSICS: dict[str, Callable[..., PrimExpr]] = {
    **{name: _with_leading_dtype(name) for name in LEADING_DTYPE},
    **{name: intrinsic(name, dtype) for name, dtype in RESULT_DTYPE.items()},
    **{name: _with_operand_dtype(name, n) for name, n in OPERAND_DTYPE.items()},
    **{f.__name__: f for f in (Ramp, Broadcast, Shuffle, index_map, target)},
    "ramp": Ramp,
    "broadcast": Broadcast,
    **{f.__name__: f for f in (cast, Cast, reinterpret, Select, Let)},
    **{
        f.__name__: f
        for f in (call_packed, call_intrin, address_of, ret, type_annotation)
    },
}
