"""Lowering to host instructions of the operators that are not compiled to machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from relax_mlir.compiler.host.builder import FunctionBuilder, Register
from relax_mlir.errors import UnsupportedError
from relax_mlir.objects.expr import Call, Expr, ExternFunc, GlobalVar, Op
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

__all__ = ["ExprWriter", "emit_operator", "known_dtype"]


class ExprWriter(Protocol):
    """Lowering of expressions to registers, as the operator rules use it."""

    builder: FunctionBuilder

    def value(self, expr: Expr) -> Register:
        """The register of an expression's value."""
        ...

    def values(self, exprs: Iterable[Expr]) -> list[Register]:
        """The registers of expressions' values."""
        ...

    def program(self, var: GlobalVar) -> Register:
        """The register of a kernel."""
        ...

    def refuse(self, what: str, hint: str) -> UnsupportedError:
        """The error for an expression that the host interpreter does not support."""
        ...


def emit_operator(call: Call, values: ExprWriter, name: str) -> Register:
    """Emit a call of an operator; returns the register of its value.

    Args:
        call: the call.
        values: writer of its arguments.
        name: for the result register.

    Raises:
        UnsupportedError: the operator has no host instruction; it needs compilation, for which
            shapes of operands are unknown.
    """
    assert isinstance(call.op, Op)
    operator = call.op.name.removeprefix("relax.")
    rule = _RULES.get(operator)
    if rule is not None:
        return rule(call, values, name)
    opcode = _OPCODES.get(operator)
    if opcode is None:
        raise values.refuse(
            f"cannot run `{operator}` on {_argument_types(call)}: expected tensors of known "
            "shapes, and an operator that can be compiled",
            "give their shapes by `R.match_cast`, which may define new symbols",
        )
    return values.builder.emit(opcode, values.values(call.args), name=name)


def _call_extern(call: Call, values: ExprWriter, name: str) -> Register:
    callee, *args = call.args
    operands = values.values(args)
    if isinstance(callee, ExternFunc):
        symbol = callee.global_symbol
        return values.builder.emit("call_packed", operands, [symbol], name=name)
    return values.builder.emit("call", [values.value(callee), *operands], name=name)


def _call_with_tuple(call: Call, values: ExprWriter, name: str) -> Register:
    return values.builder.emit("call_spread", values.values(call.args[:2]), name=name)


def _call_python(call: Call, values: ExprWriter, name: str) -> Register:
    return values.builder.emit("call_python", values.values(call.args), name=name)


def _call_destinations(call: Call, values: ExprWriter, name: str) -> Register:
    """A call in destination-passing style, with newly allocated results."""
    callee, args, *sizes = call.args
    builder = values.builder
    is_program = isinstance(callee, GlobalVar)
    function = values.program(callee) if is_program else values.value(callee)
    infos = call.sinfo_args[0]
    fields = infos.fields if isinstance(infos, TupleStructInfo) else [infos]
    inplace = list(call.attrs.get("inplace_indices") or [-1] * len(fields))
    if len(inplace) != len(fields):
        raise values.refuse(
            f"expected one of `inplace_indices` for each result, got {len(inplace)} for "
            f"{len(fields)}",
            "write -1 for a new tensor",
        )
    destinations = [
        _destination(field, values) if index < 0 else builder.literal(None)
        for field, index in zip(fields, inplace, strict=True)
    ]
    extra = values.value(sizes[0]) if sizes else builder.emit("tuple")
    results = builder.emit("tuple", destinations)
    operands = [function, values.value(args), results, extra]
    if isinstance(infos, TupleStructInfo):
        return builder.emit("call_destinations", operands, [inplace], name=name)
    written = builder.emit("call_destinations", operands, [inplace])
    return builder.emit("item", [written], [0], name=name)


def _destination(info: StructInfo, values: ExprWriter) -> Register:
    shape = getattr(info, "shape", None)
    dtype = isinstance(info, TensorStructInfo) and known_dtype(info)
    if shape is None or not dtype:
        raise values.refuse(
            f"cannot allocate a result with struct info `{info}`",
            "give its shape and its element type",
        )
    operands = [values.value(shape), values.builder.literal(dtype)]
    return values.builder.emit("empty", operands)


def known_dtype(info: TensorStructInfo) -> str:
    """The element type of a tensor; empty if it is unknown."""
    return "" if info.dtype == "void" else info.dtype


def _identity(call: Call, values: ExprWriter, name: str) -> Register:
    return values.value(call.args[0])


def _no_value(call: Call, values: ExprWriter, name: str) -> Register:
    return values.builder.literal(None)


_RULES: Mapping[str, Callable[[Call, ExprWriter, str], Register]] = {
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
    "builtin.stop_lift_params": _identity,
    "hint_on_device": _identity,
    "to_vdevice": _identity,
    "memory.ensure_zero_offset": _identity,
    "memory.kill_storage": _no_value,
    "memory.kill_tensor": _no_value,
    "vm.kill_object": _no_value,
    "null_value": _no_value,
}

# Operators that map to one instruction with the same operands.
_OPCODES: Mapping[str, str] = {
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


def _argument_types(call: Call) -> str:
    infos = [a.struct_info_or_none() for a in call.args]
    return ", ".join(f"`{i}`" for i in infos if i is not None) or "nothing"
