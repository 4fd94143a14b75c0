"""Lowering of Relax functions to host programs.

Tensor computations inside are outlined: every run of bindings that compiles to native code
becomes a function, a segment, which the host program calls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax_mlir.compiler.host.builder import FunctionBuilder, Register
from relax_mlir.compiler.host.operators import emit_operator, known_dtype
from relax_mlir.compiler.host.partition import NativePartition, bindings_of
from relax_mlir.compiler.host.prim_expr import emit_scalar
from relax_mlir.errors import UnsupportedError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_sequence,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.free_symbols import free_symbolic_vars
from relax_mlir.objects.free_variables import free_vars, used_vars
from relax_mlir.objects.function import Function
from relax_mlir.runtime.host.program import HostFunction, HostProgram

__all__ = ["HostModule", "write_host"]


@dataclass
class HostModule:
    """The host functions of a module and their callees, before compilation.

    Attributes:
        functions: by name.
        segments: outlined functions of tensors to compile, by name.
        programs: names of PrimFuncs that are called directly.
        constants: arrays by name.
        reserved: names that are in use.
    """

    functions: dict[str, HostFunction] = field(default_factory=dict)
    segments: dict[str, Function] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    @property
    def program(self) -> HostProgram:
        """The functions as a program."""
        return HostProgram(self.functions)


def write_host(
    module: IRModule, names: Sequence[str], native: NativePartition
) -> HostModule:
    """Lower functions and their callees to host functions.

    Raises:
        UnsupportedError: the host interpreter does not support an expression.
    """
    host = HostModule(reserved={op.name.value for op in module.func_ops()})
    worklist = list(names)
    while worklist:
        name = worklist.pop(0)
        if name in host.functions:
            continue
        writer = _Writer(_Scope(module, native, host, name), module[name])
        host.functions[name] = writer.write()
        worklist += writer.called
    return host


@dataclass(frozen=True)
class _Scope:
    """State that the writers of a function and its inner functions share.

    Attributes:
        module: the module.
        native: the partition.
        host: the functions so far.
        name: of the module's function.
    """

    module: IRModule
    native: NativePartition
    host: HostModule
    name: str


_Check = tuple[prim.PrimExpr, Register, str]
"""An expected size, the register of the actual size, and its description."""


class _Writer:
    """Lowers one function.

    Args:
        scope: the shared state.
        function: the function.
        outer: the writer of the enclosing function, if any.
    """

    def __init__(
        self, scope: _Scope, function: Function, outer: _Writer | None = None
    ) -> None:
        self._scope, self._function, self._outer = scope, function, outer
        self.builder = FunctionBuilder([p.name_hint for p in function.params])
        self._values: dict[Var, Register] = {}
        self._sizes: dict[prim.Var, Register] = {}
        self.captured: list[Register] = []
        self.called: list[str] = [] if outer is None else outer.called

    # Variables.

    @contextmanager
    def _scoped_sizes(self) -> Iterator[None]:
        """Scope of the sizes that are bound inside the context."""
        known = dict(self._sizes)
        yield
        self._sizes = known

    def _value_of(self, var: Var) -> Register:
        """The register of a variable; captures those of the enclosing function."""
        if var not in self._values:
            assert self._outer is not None
            self._values[var] = self._capture(self._outer._value_of(var))
        return self._values[var]

    def _size_of(self, var: prim.Var) -> Register | None:
        """The register of a symbolic size; None if it is unbound."""
        if var not in self._sizes and self._outer is not None:
            outer = self._outer._size_of(var)
            if outer is not None:
                self._sizes[var] = self._capture(outer)
        return self._sizes.get(var)

    def _capture(self, value: Register) -> Register:
        self.captured.append(value)
        return self.builder.capture(value.name)

    def _define(self, var: Var) -> Register:
        self._values[var] = self.builder.register(var.name_hint)
        return self._values[var]

    def _where(self, what: str) -> str:
        return f"`{self._scope.name}`: {what}"

    def refuse(self, what: str, hint: str) -> UnsupportedError:
        """The error for an expression that the host interpreter does not support."""
        return UnsupportedError(f"`{self._scope.name}`: {what}. Hint: {hint}")

    # Functions.

    def write(self) -> HostFunction:
        """Lower the function."""
        checks: list[_Check] = []
        params = self._function.params
        self._values.update(zip(params, self.builder.params, strict=True))
        for param, register in zip(params, self.builder.params, strict=True):
            where = f"parameter `{param.name_hint}`"
            self._match(param.struct_info, register, where, checks)
        self._check_sizes(checks)
        result = self._sequence(self._function.body)
        self._check_result(result)
        return self.builder.finish(result)

    def _check_result(self, result: Register) -> None:
        declared = self._function.ret_struct_info
        inferred = self._function.body.struct_info_or_none()
        if inferred is not None and declared.is_base_of(inferred):
            return
        checks: list[_Check] = []
        self._match(declared, result, "return value", checks)
        self._check_sizes(checks)

    def _inner(self, target: Register, function: Function) -> None:
        """Lower an inner function, and emit its closure."""
        writer = _Writer(self._scope, function, outer=self)
        host, stem = self._scope.host, target.name or "function"
        name = _free_name(f"{self._scope.name}.{stem}", host.reserved)
        host.reserved.add(name)
        host.functions[name] = writer.write()
        self.builder.emit_to([target], "closure", writer.captured, [name])

    # Struct info checks.

    def _match(
        self, info: StructInfo, value: Register, where: str, checks: list[_Check]
    ) -> None:
        """Emit checks of a value against struct info; binds its unbound symbolic sizes.

        Sizes that are already bound, or expressions, are appended to ``checks``.
        """
        full = self._where(where)
        emit = self.builder.emit_to
        if isinstance(info, TupleStructInfo):
            emit([], "check_tuple", [value], [len(info.fields), full])
            for index, part in enumerate(info.fields):
                item = self.builder.emit("item", [value], [index])
                self._match(part, item, f"{where}, field {index}", checks)
        elif isinstance(info, TensorStructInfo):
            sizes = info.shape.values if isinstance(info.shape, ShapeExpr) else ()
            read = self._size_registers(sizes, where, checks, are_static_checked=True)
            expected = [_static_sizes(info), known_dtype(info)]
            emit(read, "check_tensor", [value], [*expected, full])
        elif isinstance(info, ShapeStructInfo):
            read = self._size_registers(info.values or (), where, checks)
            emit(read, "check_shape", [value], [info.ndim, full])
        elif isinstance(info, PrimStructInfo):
            sizes = () if info.value is None else [info.value]
            read = self._size_registers(sizes, where, checks)
            emit(read, "check_number", [value], [info.dtype, full])
        elif isinstance(info, FuncStructInfo):
            emit([], "check_function", [value], [full])

    def _size_registers(
        self,
        sizes: Sequence[prim.PrimExpr],
        where: str,
        checks: list[_Check],
        *,
        are_static_checked: bool = False,
    ) -> list[Register | None]:
        """Registers for sizes to bind or to check; None for others.

        Args:
            are_static_checked: whether the instruction itself checks static sizes.
        """
        read: list[Register | None] = []
        for axis, size in enumerate(sizes):
            register = None
            if isinstance(size, prim.Var) and self._size_of(size) is None:
                register = self._sizes[size] = self.builder.register(size.name)
            elif not (isinstance(size, prim.IntImm) and are_static_checked):
                register = self.builder.register("size")
                checks.append((size, register, f"{where}, size {axis}"))
            read.append(register)
        return read

    def _check_sizes(self, checks: list[_Check]) -> None:
        for size, value, where in checks:
            immediates = [str(size), self._where(where)]
            operands = [value, self._scalar(size)]
            self.builder.emit_to([], "check_size", operands, immediates)
        checks.clear()

    def _scalar(self, expr: prim.PrimExpr) -> Register:
        def register_of(var: prim.Var) -> Register:
            register = self._size_of(var)
            if register is None:
                raise self.refuse(
                    f"symbolic size `{var.name}` is unbound: expected a parameter or cast "
                    "with this size",
                    f"add a parameter `R.Prim(value={var.name!r})`",
                )
            return register

        return emit_scalar(self.builder, expr, register_of)

    # Bindings.

    def _sequence(self, body: SeqExpr) -> Register:
        """Lower the bindings; returns the register of the body's value."""
        bindings = list(bindings_of(body))
        group: list[Binding] = []
        native = self._scope.native
        for number, binding in enumerate(bindings):
            is_native = native.compiles_binding(binding)
            if is_native and (group or not native.is_alias(binding)):
                group.append(binding)
                continue
            self._segment(group, bindings[number:], body.body)
            group = []
            self._binding(binding)
        self._segment(group, (), body.body)
        return self.value(body.body)

    def _segment(
        self, group: list[Binding], rest: Sequence[Binding], result: Expr
    ) -> None:
        """Outline a group of bindings as a segment, and call it.

        Aliases at its end stay outside.
        """
        tail = list[Binding]()
        while group and self._scope.native.is_alias(group[-1]):
            tail.insert(0, group.pop())
        if group:
            self._call_segment(group, _used_in([*tail, *rest], result))
        for binding in tail:
            self._binding(binding)

    def _call_segment(self, group: Sequence[Binding], used: set[Var]) -> None:
        defined = [b.var for b in group]
        may_stop = self._scope.native.may_stop
        outputs = [b.var for b in group if b.var in used or may_stop(b)]
        if not outputs:  # casts are kept for their checks
            outputs = [b.var for b in group if isinstance(b, MatchCast)]
        if not outputs:  # dead code
            return
        read = dict.fromkeys(v for b in group for v in free_vars(b.value))
        inputs = [v for v in read if v not in defined]
        body = SeqExpr([BindingBlock(group)], Tuple(outputs))
        function = Function(
            inputs, body, TupleStructInfo([v.struct_info for v in outputs])
        )
        arguments = [self._value_of(v) for v in inputs]
        missing = list(free_symbolic_vars(function))
        if missing:
            sizes = Var("sizes", TensorStructInfo([0, *missing], "uint8"))
            function = Function([*inputs, sizes], body, function.ret_struct_info)
            dims = [self.builder.literal(0), *map(self._scalar, missing)]
            dtype = self.builder.literal("uint8")
            shape = self.builder.emit("tuple", dims)
            arguments.append(self.builder.emit("empty", [shape, dtype]))
        segments = self._scope.host.segments
        name = _free_name(f"{self._scope.name}_segment", segments)
        segments[name] = function
        targets = [self._define(v) for v in outputs]
        self.builder.emit_to(targets, "call_segment", arguments, [name])

    def _binding(self, binding: Binding) -> None:
        if isinstance(binding, MatchCast):
            self._cast(binding)
            return
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, If):
            self._if(binding.var, value)
        elif isinstance(value, Function):
            self._inner(self._define(binding.var), value)
        else:
            self._values[binding.var] = self.value(value, binding.var.name_hint)

    def _cast(self, binding: MatchCast) -> None:
        name = binding.var.name_hint
        self._values[binding.var] = value = self.value(binding.value, name)
        checks: list[_Check] = []
        self._match(binding.struct_info, value, f"match_cast of `{name}`", checks)
        self._check_sizes(checks)

    def _if(self, var: Var, value: If) -> None:
        condition, blocks = self.value(value.cond), []
        for branch in (value.true_branch, value.false_branch):
            with self.builder.block() as block, self._scoped_sizes():
                block.result = self._sequence(as_sequence(branch))
            blocks.append(block)
        name = var.name_hint
        self._values[var] = self.builder.emit(
            "if", [condition], name=name, blocks=blocks
        )

    # Values.

    def value(self, expr: Expr, name: str = "") -> Register:
        """The register of an expression's value.

        Args:
            expr: the expression.
            name: for a new register.
        """
        for type_, write in _WRITERS.items():
            if isinstance(expr, type_):
                return write(self, expr, name)
        raise self.refuse(
            f"cannot run `{expr!r}`", "bind it to a variable before its use"
        )

    def values(self, exprs: Iterable[Expr]) -> list[Register]:
        """The registers of expressions' values."""
        return list(map(self.value, exprs))

    def _fields(self, expr: Tuple, name: str) -> Register:
        return self.builder.emit("tuple", self.values(expr.fields), name=name)

    def _field(self, expr: TupleGetItem, name: str) -> Register:
        whole = self.value(expr.tuple_value)
        return self.builder.emit("item", [whole], [expr.index], name=name)

    def _shape(self, expr: ShapeExpr, name: str) -> Register:
        sizes = list(map(self._scalar, expr.values))
        return self.builder.emit("shape", sizes, name=name)

    def _inner_function(self, expr: Function, name: str) -> Register:
        target = self.builder.register(name)
        self._inner(target, expr)
        return target

    def _constant(self, expr: Constant, _: str) -> Register:
        constants = self._scope.host.constants
        name = _free_name("constant", constants)
        constants[name] = np.asarray(expr.data)
        return self.builder.literal(name, "tensor")

    def _callee(self, var: GlobalVar, _: str = "") -> Register:
        name = var.name_hint
        if var not in self._scope.module:
            raise self.refuse(
                f"module has no function `{name}`", "add it by `update_func`"
            )
        if not isinstance(self._scope.module[name], Function):
            return self.program(var)
        self.called.append(name)
        return self.builder.literal(name, "function")

    def program(self, var: GlobalVar) -> Register:
        """The register of a kernel."""
        if var.name_hint not in self._scope.host.programs:
            self._scope.host.programs.append(var.name_hint)
        return self.builder.literal(var.name_hint, "program")

    def _call(self, call: Call, name: str) -> Register:
        if isinstance(call.op, Op):
            return emit_operator(call, self, name)
        args = self.values(call.args)
        if isinstance(call.op, ExternFunc):
            symbol = call.op.global_symbol
            return self.builder.emit("call_packed", args, [symbol], name=name)
        return self.builder.emit("call", [self.value(call.op), *args], name=name)


_WRITERS: Mapping[type, Callable[[_Writer, Any, str], Register]] = {
    Var: lambda writer, expr, name: writer._value_of(expr),
    Tuple: _Writer._fields,
    TupleGetItem: _Writer._field,
    ShapeExpr: _Writer._shape,
    PrimValue: lambda writer, expr, name: writer._scalar(expr.value),
    prim.PrimExpr: lambda writer, expr, name: writer._scalar(expr),
    StringImm: lambda writer, expr, name: writer.builder.literal(expr.value),
    DataTypeImm: lambda writer, expr, name: writer.builder.literal(expr.value),
    Constant: _Writer._constant,
    GlobalVar: _Writer._callee,
    ExternFunc: lambda writer, expr, name: writer.builder.emit(
        "packed", (), [expr.global_symbol], name=name
    ),
    Call: _Writer._call,
    Function: _Writer._inner_function,
}


def _static_sizes(info: TensorStructInfo) -> Sequence[int | None] | None:
    """The shape of a tensor with None for symbolic sizes; None for an unknown rank."""
    if isinstance(info.shape, ShapeExpr):
        return [s.value if isinstance(s, prim.IntImm) else None for s in info.shape]
    return None if info.ndim < 0 else [None] * info.ndim


def _used_in(bindings: Iterable[Binding], result: Expr) -> set[Var]:
    used = set(used_vars(result))
    for binding in bindings:
        used.update(used_vars(binding.value))
    return used


def _free_name(stem: str, reserved: Container[str]) -> str:
    number = 0
    while f"{stem}_{number}" in reserved:
        number += 1
    return f"{stem}_{number}"
