"""Calls of operators that are no tensor operations, as Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from relax_mlir.errors import UnsupportedError
from relax_mlir.objects.expr import Call, Expr, GlobalVar, Op
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["Values", "known_dtype", "operator_code"]


class Values(Protocol):
    """Writes what stands in a call."""

    def value(self, expr: Expr) -> str:
        """An expression as Python."""
        ...

    def values(self, exprs: Iterable[Expr]) -> str:
        """Expressions as Python, with commas."""
        ...

    def program_name(self, var: GlobalVar) -> str:
        """What a tensor program is called in the Python."""
        ...

    def refuse(self, what: str, hint: str) -> UnsupportedError:
        """The error for what cannot be run."""
        ...


def operator_code(call: Call, values: Values) -> str:
    """A call of an operator.

    Raises:
        UnsupportedError: the operator works on tensors, of which too little is known.
    """
    assert isinstance(call.op, Op)
    name = call.op.name.removeprefix("relax.")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(call, values)
    simple = _SIMPLE.get(name)
    if simple is None:
        raise values.refuse(
            f"cannot run `{name}` on {_described(call)}: expected tensors of known "
            "sizes, and an operator that can be compiled",
            "say their sizes by `R.match_cast`, which may define new symbols",
        )
    return f"rt.{simple}({values.values(call.args)})"


def _call_extern(call: Call, values: Values) -> str:
    callee, *args = call.args
    return f"{values.value(callee)}({values.values(args)})"


def _call_with_tuple(call: Call, values: Values) -> str:
    callee, args = call.args[0], call.args[1]
    return f"{values.value(callee)}(*{values.value(args)})"


def _call_python(call: Call, values: Values) -> str:
    name, args = call.args
    return f"rt.python_function({values.value(name)})(*{values.value(args)})"


def _call_destinations(call: Call, values: Values) -> str:
    """A call that gets new tensors to write to."""
    callee, args, *sizes = call.args
    is_program = isinstance(callee, GlobalVar)
    function = values.program_name(callee) if is_program else values.value(callee)
    infos = call.sinfo_args[0]
    fields = infos.fields if isinstance(infos, TupleStructInfo) else [infos]
    places = call.attrs.get("inplace_indices") or [-1] * len(fields)
    made = [
        _destination(field, values) if place < 0 else "None"
        for field, place in zip(fields, places, strict=True)
    ]
    parts = [function, values.value(args), f"[{', '.join(made)}]", f"{list(places)}"]
    if sizes:
        parts.append(values.value(sizes[0]))
    text = f"rt.call_destinations({', '.join(parts)})"
    return text if isinstance(infos, TupleStructInfo) else f"{text}[0]"


def _destination(info: StructInfo, values: Values) -> str:
    shape = getattr(info, "shape", None)
    known = isinstance(info, TensorStructInfo) and known_dtype(info)
    if shape is None or not known:
        raise values.refuse(
            f"cannot make a tensor for a result of which `{info}` is known",
            "give its sizes and its element type",
        )
    return f"rt.empty({values.value(shape)}, {known!r})"


def known_dtype(info: TensorStructInfo) -> str:
    """The element type of a tensor; empty where it is not known."""
    return "" if info.dtype == "void" else info.dtype


def _same(call: Call, values: Values) -> str:
    return values.value(call.args[0])


def _nothing(call: Call, values: Values) -> str:
    return "None"


_SPECIAL: Mapping[str, Callable[[Call, Values], str]] = {
    "call_pure_packed": _call_extern,
    "call_inplace_packed": _call_extern,
    "call_builtin_with_ctx": _call_with_tuple,
    "invoke_closure": _call_with_tuple,
    "invoke_pure_closure": _call_with_tuple,
    "vm.call_tir_dyn": _call_with_tuple,
    "call_py_func": _call_python,
    "call_tir": _call_destinations,
    "call_dps_packed": _call_destinations,
    "call_tir_inplace": _call_destinations,
    "builtin.stop_lift_params": _same,
    "hint_on_device": _same,
    "to_vdevice": _same,
    "memory.ensure_zero_offset": _same,
    "memory.kill_storage": _nothing,
    "memory.kill_tensor": _nothing,
    "vm.kill_object": _nothing,
    "null_value": _nothing,
}

# Operators that a function of the host runs, which takes the same arguments.
_SIMPLE: Mapping[str, str] = {
    "make_closure": "closure",
    "print": "print_values",
    "assert_op": "assert_true",
    "nonzero": "nonzero",
    "unique": "unique",
    "shape_of": "shape_of",
    "size": "size_of",
    "tensor_to_shape": "tensor_to_shape",
    "shape_to_tensor": "shape_to_tensor",
    "builtin.alloc_tensor": "alloc_tensor",
    "memory.alloc_storage": "alloc_storage",
    "memory.alloc_tensor": "tensor_in",
    "memory.view": "view",
    "vm.alloc_storage": "alloc_vm_storage",
    "vm.alloc_tensor": "tensor_in",
    "inspect.tensor_shape_i": "shape_i",
    "inspect.tensor_stride_i": "stride_i",
    "inspect.tensor_byte_offset": "byte_offset",
    "inspect.tensor_elem_offset": "byte_offset",
    "inspect.tensor_ndim": "ndim",
    "inspect.tensor_dtype_code": "dtype_code",
    "inspect.tensor_dtype_bits": "dtype_bits",
    "inspect.tensor_dtype_lanes": "dtype_lanes",
}


def _described(call: Call) -> str:
    infos = [a.struct_info_or_none() for a in call.args]
    return ", ".join(f"`{i}`" for i in infos if i is not None) or "nothing"
