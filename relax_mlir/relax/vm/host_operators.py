"""Calls of operators that are no tensor operations, as instructions of host functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from relax_mlir.errors import UnsupportedError
from relax_mlir.objects.expr import Call, Expr, ExternFunc, GlobalVar, Op
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.vm.host_builder import FunctionBuilder, Register

__all__ = ["Values", "emit_operator", "known_dtype"]


class Values(Protocol):
    """Writes what stands in a call."""

    builder: FunctionBuilder

    def value(self, expr: Expr) -> Register:
        """The register of an expression's value."""
        ...

    def values(self, exprs: Iterable[Expr]) -> list[Register]:
        """The registers of expressions' values."""
        ...

    def program(self, var: GlobalVar) -> Register:
        """The register of a tensor program."""
        ...

    def refuse(self, what: str, hint: str) -> UnsupportedError:
        """The error for what cannot be run."""
        ...


def emit_operator(call: Call, values: Values, name: str) -> Register:
    """Emit a call of an operator; return the register of its value.

    Args:
        call: the call.
        values: writes its arguments.
        name: what a new register is called.

    Raises:
        UnsupportedError: the operator works on tensors, of which too little is known.
    """
    assert isinstance(call.op, Op)
    operator = call.op.name.removeprefix("relax.")
    special = _SPECIAL.get(operator)
    if special is not None:
        return special(call, values, name)
    opcode = _SIMPLE.get(operator)
    if opcode is None:
        raise values.refuse(
            f"cannot run `{operator}` on {_described(call)}: expected tensors of known "
            "sizes, and an operator that can be compiled",
            "say their sizes by `R.match_cast`, which may define new symbols",
        )
    return values.builder.emit(opcode, values.values(call.args), name=name)


def _call_extern(call: Call, values: Values, name: str) -> Register:
    callee, *args = call.args
    operands = values.values(args)
    if isinstance(callee, ExternFunc):
        symbol = callee.global_symbol
        return values.builder.emit("call_packed", operands, [symbol], name=name)
    return values.builder.emit("call", [values.value(callee), *operands], name=name)


def _call_with_tuple(call: Call, values: Values, name: str) -> Register:
    return values.builder.emit("call_spread", values.values(call.args[:2]), name=name)


def _call_python(call: Call, values: Values, name: str) -> Register:
    return values.builder.emit("call_python", values.values(call.args), name=name)


def _call_destinations(call: Call, values: Values, name: str) -> Register:
    """A call that gets new tensors to write to."""
    callee, args, *sizes = call.args
    builder = values.builder
    is_program = isinstance(callee, GlobalVar)
    function = values.program(callee) if is_program else values.value(callee)
    infos = call.sinfo_args[0]
    fields = infos.fields if isinstance(infos, TupleStructInfo) else [infos]
    places = list(call.attrs.get("inplace_indices") or [-1] * len(fields))
    if len(places) != len(fields):
        raise values.refuse(
            f"expected one of `inplace_indices` for each result, got {len(places)} for "
            f"{len(fields)}",
            "write -1 for a new tensor",
        )
    made = [
        _destination(field, values) if place < 0 else builder.literal(None)
        for field, place in zip(fields, places, strict=True)
    ]
    extra = values.value(sizes[0]) if sizes else builder.emit("tuple")
    operands = [function, values.value(args), builder.emit("tuple", made), extra]
    if isinstance(infos, TupleStructInfo):
        return builder.emit("call_destinations", operands, [places], name=name)
    written = builder.emit("call_destinations", operands, [places])
    return builder.emit("item", [written], [0], name=name)


def _destination(info: StructInfo, values: Values) -> Register:
    shape = getattr(info, "shape", None)
    known = isinstance(info, TensorStructInfo) and known_dtype(info)
    if shape is None or not known:
        raise values.refuse(
            f"cannot make a tensor for a result of which `{info}` is known",
            "give its sizes and its element type",
        )
    operands = [values.value(shape), values.builder.literal(known)]
    return values.builder.emit("empty", operands)


def known_dtype(info: TensorStructInfo) -> str:
    """The element type of a tensor; empty where it is not known."""
    return "" if info.dtype == "void" else info.dtype


def _same(call: Call, values: Values, name: str) -> Register:
    return values.value(call.args[0])


def _nothing(call: Call, values: Values, name: str) -> Register:
    return values.builder.literal(None)


_SPECIAL: Mapping[str, Callable[[Call, Values, str], Register]] = {
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

# Operators that are an instruction with the same operands.
_SIMPLE: Mapping[str, str] = {
    "make_closure": "bind_arguments",
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
