"""Functions of scalars that scripts call: casts, foreign functions, intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import functions, prim
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import Call, PrimExpr

__all__ = ["INTRINSICS", "intrinsic", "math_function"]


def math_function(name: str) -> Callable[..., Any]:
    """The function called ``name``; a type that is given as well is ignored."""
    found = getattr(functions, name)

    def apply(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("dtype", None)
        return found(*args, **kwargs)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = found.__doc__
    return apply


def intrinsic(name: str, dtype: str = "handle") -> Callable[..., PrimExpr]:
    """A function that stands for itself, of any arguments.

    Args:
        dtype: type of what it gives, where a call does not say it.
    """

    def apply(*args: Any, **kwargs: Any) -> PrimExpr:
        given = str(kwargs.pop("dtype", dtype))
        return Call(
            given, name, [*map(_argument, args), *map(_argument, kwargs.values())]
        )

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}``, as a term."
    return apply


def _argument(value: Any) -> Any:
    return value.data if isinstance(value, Buffer) else value


def cast(value: Any, dtype: Any, span: object = None) -> PrimExpr:
    """The value in another type."""
    return prim.cast(str(dtype), value)


def Cast(dtype: Any, value: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """The value in another type; a number too is converted where the program runs."""
    return prim.Cast(str(dtype), value)


def reinterpret(*args: Any, dtype: Any = None) -> PrimExpr:
    """The same bits as a number of another type; the type comes first, or by name."""
    if dtype is not None:
        return functions.reinterpret(str(dtype), *args)
    target, value = args
    return functions.reinterpret(str(target), value)


def _foreign(name: str) -> Callable[..., PrimExpr]:
    """A call whose first argument is its type, unless that is given by name."""

    def apply(*args: Any, dtype: Any = None) -> PrimExpr:
        if dtype is None:
            dtype, *rest = args
            args = tuple(rest)
        return Call(str(dtype), name, [_argument(a) for a in args])

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}(dtype, function, *args)``, as a term."
    return apply


def call_packed(*args: Any, span: object = None) -> PrimExpr:
    """Call a registered function; its name comes first."""
    return Call("int32", "tvm_call_packed", [_argument(a) for a in args])


def call_intrin(dtype: Any, func_name: Any, *args: Any, **options: Any) -> PrimExpr:
    """Call an intrinsic by name."""
    name = str(getattr(func_name, "name", func_name))
    return Call(str(dtype), name, [_argument(a) for a in args])


def address_of(obj: Any, span: object = None, dtype: Any = None) -> PrimExpr:
    """The pointer to an element, or to the first one of a buffer."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, [0] * obj.ndim)
    return Call("handle", "address_of", [obj])


def ret(val: Any, span: object = None) -> PrimExpr:
    """What the program returns."""
    term = prim.convert(val)
    return Call(term.dtype, "ret", [term])


def type_annotation(dtype: Any) -> PrimExpr:
    """A type as an argument."""
    return Call(str(dtype), "type_annotation", [])


def Select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:  # noqa: N802
    """One of two values, both of which are computed."""
    return prim.Select(condition, true_value, false_value)


def Let(expr: Any, where: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """``expr`` with the variable of ``where`` standing for its value."""
    ((var, value),) = where.items()
    return prim.Let(var, value, expr)


_FOREIGN = (
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
)
_OF_INT32 = (
    *("tvm_storage_sync", "tvm_global_barrier_kinit", "tvm_throw_last_error"),
    *("tvm_thread_allreduce", "tvm_stack_alloca", "isnullptr", "vscale"),
    *("tvm_call_packed", "tvm_call_cpacked", "call_cpacked"),
)
_OF_HANDLE = (
    *("tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync"),
    *("tvm_store_matrix_sync", "tvm_access_ptr", "tvm_tuple", "tvm_struct_set"),
    *("tvm_struct_get", "tvm_stack_make_shape", "tvm_stack_make_array", "lookup_param"),
    *("tvm_call_packed_lowered", "tvm_warp_shuffle"),
)
_OF_BOOL = ("assume", "ignore_loop_partition")

INTRINSICS: dict[str, Callable[..., PrimExpr]] = {
    **{name: _foreign(name) for name in _FOREIGN},
    **{name: intrinsic(name, "int32") for name in _OF_INT32},
    **{name: intrinsic(name) for name in _OF_HANDLE},
    **{name: intrinsic(name, "bool") for name in _OF_BOOL},
    **{f.__name__: f for f in (cast, Cast, reinterpret, Select, Let)},
    **{
        f.__name__: f
        for f in (call_packed, call_intrin, address_of, ret, type_annotation)
    },
}
