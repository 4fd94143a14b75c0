"""Functions of scalars that scripts call: casts, foreign functions, intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import functions, prim
from relax_mlir.objects.argument_checks import dtype_text
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
    return prim.cast(dtype_text(dtype, "`dtype`"), value)


def Cast(dtype: Any, value: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """The value in another type; a number too is converted where the program runs."""
    return prim.Cast(dtype_text(dtype, "`dtype`"), value)


def reinterpret(*args: Any, dtype: Any = None) -> PrimExpr:
    """The same bits as a number of another type; the type comes first, or by name."""
    if dtype is not None:
        return functions.reinterpret(dtype_text(dtype, "`dtype`"), *args)
    target, value = args
    return functions.reinterpret(str(target), value)


def _foreign(name: str) -> Callable[..., PrimExpr]:
    """A call whose first argument is its type, unless that is given by name."""

    def apply(*args: Any, dtype: Any = None) -> PrimExpr:
        if dtype is None:
            dtype, *rest = args
            args = tuple(rest)
        return Call(
            dtype_text(dtype, "`dtype`") or "void", name, [_argument(a) for a in args]
        )

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}(dtype, function, *args)``, as a term."
    return apply


def call_packed(*args: Any, span: object = None) -> PrimExpr:
    """Call a registered function; its name comes first."""
    return Call("int32", "tvm_call_packed", [_argument(a) for a in args])


def call_intrin(dtype: Any, func_name: Any, *args: Any, **options: Any) -> PrimExpr:
    """Call an intrinsic by name."""
    name = str(getattr(func_name, "name", func_name))
    return Call(dtype_text(dtype, "`dtype`"), name, [_argument(a) for a in args])


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
    return Call(dtype_text(dtype, "`dtype`"), "type_annotation", [])


def Select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:  # noqa: N802
    """One of two values, both of which are computed."""
    return prim.Select(condition, true_value, false_value)


def Ramp(base: Any, stride: Any, lanes: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """The vector ``base``, ``base + stride``, ...; of one lane, ``base``."""
    count = prim.convert(lanes)
    is_one = isinstance(count, prim.IntImm) and count.value == 1
    return prim.convert(base) if is_one else prim.Ramp(base, stride, count)


def Broadcast(value: Any, lanes: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """The vector of one value in every lane; of one lane, the value."""
    count = prim.convert(lanes)
    is_one = isinstance(count, prim.IntImm) and count.value == 1
    return prim.convert(value) if is_one else prim.Broadcast(value, count)


def Shuffle(vectors: Any, indices: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """Lanes of vectors in another order."""
    return prim.Shuffle(vectors, indices)


def index_map(mapping: Any, *, inverse_index_map: Any = None) -> Any:
    """A map of indices, of a function of them."""
    from relax_mlir.tir.schedule.index_map import IndexMap

    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map)


def target(target_config: Any, host: Any = None) -> Any:
    """A target as an attribute: a name, or a dictionary of its properties."""
    from relax_mlir.relax.target import Target

    return Target(target_config) if host is None else Target(target_config, host)


def _of_first(name: str, number: int) -> Callable[..., PrimExpr]:
    """An intrinsic whose type is that of one of its arguments."""

    def apply(*args: Any, dtype: Any = None, **options: Any) -> PrimExpr:
        if isinstance(args[0], str):  # the type, as a printer may write it
            dtype, *rest = args
            args = tuple(rest)
        given = dtype or prim.convert(args[number]).dtype
        return Call(str(given), name, [_argument(a) for a in args])

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}``, as a term."
    return apply


def Let(expr: Any, where: Any, span: object = None) -> PrimExpr:  # noqa: N802
    """``expr`` with the variable of ``where`` standing for its value."""
    ((var, value),) = where.items()
    return prim.Let(var, value, expr)


_VECTOR_PARTS = ("vectorlow", "vectorhigh", "vectorcombine")
_WARP_SHUFFLES = (
    *("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"),
    "tvm_warp_shuffle_xor",
)
_FOREIGN = (
    "call_extern",
    "call_pure_extern",
    "call_llvm_intrin",
    *("call_llvm_pure_intrin", "get_active_lane_mask"),
)
_OF_INT32 = (
    *("tvm_storage_sync", "tvm_global_barrier_kinit", "tvm_throw_last_error"),
    *("tvm_thread_allreduce", "tvm_stack_alloca", "vscale"),
    *("tvm_call_packed", "tvm_call_cpacked", "call_cpacked"),
    *("undef", "dp4a", "q_multiply_shift", "q_multiply_shift_per_axis"),
    *("anylist_resetitem", "anylist_setitem_call_packed"),
    "anylist_setitem_call_cpacked",
    *("TVMBackendFreeWorkspace", "tvm_struct_set", "llvm_lookup_intrinsic_id"),
)
_OF_UINT32 = ("tvm_warp_activemask",)
_OF_VOID = ("break_loop", "continue_loop", "thread_return")
_OF_HANDLE = (
    *("tvm_fill_fragment", "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_bmma_sync"),
    *("tvm_store_matrix_sync", "tvm_access_ptr", "tvm_tuple"),
    *("tvm_struct_get", "tvm_stack_make_shape", "tvm_stack_make_array", "lookup_param"),
    *("tvm_call_packed_lowered", "TVMBackendAllocWorkspace", "anylist_getitem"),
    *("start_profile_intrinsic", "end_profile_intrinsic"),
)
_OF_BOOL = ("isnullptr", "assume", "ignore_loop_partition")

INTRINSICS: dict[str, Callable[..., PrimExpr]] = {
    **{name: _foreign(name) for name in _FOREIGN},
    **{name: intrinsic(name, "int32") for name in _OF_INT32},
    **{name: intrinsic(name) for name in _OF_HANDLE},
    **{name: intrinsic(name, "bool") for name in _OF_BOOL},
    **{name: intrinsic(name, "uint32") for name in _OF_UINT32},
    **{name: intrinsic(name, "void") for name in _OF_VOID},
    **{name: _of_first(name, 0) for name in _VECTOR_PARTS},
    **{name: _of_first(name, 1) for name in _WARP_SHUFFLES},
    **{f.__name__: f for f in (Ramp, Broadcast, Shuffle, index_map, target)},
    "ramp": Ramp,
    "broadcast": Broadcast,
    **{f.__name__: f for f in (cast, Cast, reinterpret, Select, Let)},
    **{
        f.__name__: f
        for f in (call_packed, call_intrin, address_of, ret, type_annotation)
    },
}
