"""Writes the functions that are not machine code as host programs.

What computes tensors in them is machine code all the same: every run of such bindings
becomes a function of its own, a segment, which the host program calls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax_mlir.errors import UnsupportedError
from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.analysis import free_symbolic_vars, free_vars, used_vars
from relax_mlir.relax.vm.host_builder import FunctionBuilder, Register
from relax_mlir.relax.vm.host_operators import emit_operator, known_dtype
from relax_mlir.relax.vm.host_program import HostFunction, HostProgram
from relax_mlir.relax.vm.native import Native, bindings_of
from relax_mlir.relax.vm.prim_code import emit_scalar

__all__ = ["HostModule", "write_host"]


@dataclass
class HostModule:
    """The host functions of a module, and what they call.

    Attributes:
        functions: by name.
        segments: by name, functions of tensors that are to be machine code.
        programs: names of tensor programs that are called by themselves.
        constants: arrays by name.
        taken: names that a function cannot have.
    """

    functions: dict[str, HostFunction] = field(default_factory=dict)
    segments: dict[str, Function] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    @property
    def program(self) -> HostProgram:
        """The functions as a program."""
        return HostProgram(self.functions)


def write_host(module: IRModule, names: Sequence[str], native: Native) -> HostModule:
    """The functions called ``names``, and those that they call, as host functions.

    Raises:
        UnsupportedError: something in them has no meaning when a program runs.
    """
    host = HostModule(taken={op.name.value for op in module.func_ops()})
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in host.functions:
            continue
        writer = _Writer(_Scope(module, native, host, name), module[name])
        host.functions[name] = writer.write()
        waiting += writer.called
    return host


@dataclass(frozen=True)
class _Scope:
    """Where functions are written.

    Attributes:
        module: the module.
        native: tells what is machine code.
        host: what is written so far.
        name: of the module's function.
    """

    module: IRModule
    native: Native
    host: HostModule
    name: str


_Check = tuple[prim.PrimExpr, Register, str]
"""A size, the register with the one that is there, and what it is a size of."""


class _Writer:
    """Writes one function.

    Args:
        scope: where it is written.
        function: what is written.
        outer: the writer of the function around it.
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
    def _own_sizes(self) -> Iterator[None]:
        """Sizes that are learnt inside are not known behind."""
        known = dict(self._sizes)
        yield
        self._sizes = known

    def _value_of(self, var: Var) -> Register:
        """The register of a variable; one of the function around is captured."""
        if var not in self._values:
            assert self._outer is not None
            self._values[var] = self._capture(self._outer._value_of(var))
        return self._values[var]

    def _size_of(self, var: prim.Var) -> Register | None:
        """The register of a size; None if nothing tells it."""
        if var not in self._sizes and self._outer is not None:
            found = self._outer._size_of(var)
            if found is not None:
                self._sizes[var] = self._capture(found)
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
        """The error for what cannot be run."""
        return UnsupportedError(f"`{self._scope.name}`: {what}. Hint: {hint}")

    # Functions.

    def write(self) -> HostFunction:
        """The function."""
        later: list[_Check] = []
        params = self._function.params
        self._values.update(zip(params, self.builder.params, strict=True))
        for param, register in zip(params, self.builder.params, strict=True):
            where = f"parameter `{param.name_hint}`"
            self._match(param.struct_info, register, where, later)
        self._check_sizes(later)
        result = self._sequence(self._function.body)
        self._check_result(result)
        return self.builder.finish(result)

    def _check_result(self, result: Register) -> None:
        stated = self._function.ret_struct_info
        told = self._function.body.struct_info_or_none()
        if told is not None and stated.is_base_of(told):
            return
        later: list[_Check] = []
        self._match(stated, result, "return value", later)
        self._check_sizes(later)

    def _inner(self, target: Register, function: Function) -> None:
        """Write a function inside this one, and make a closure of it."""
        writer = _Writer(self._scope, function, outer=self)
        host, stem = self._scope.host, target.name or "function"
        name = _free_name(f"{self._scope.name}.{stem}", host.taken)
        host.taken.add(name)
        host.functions[name] = writer.write()
        self.builder.emit_to([target], "closure", writer.captured, [name])

    # What values must be.

    def _match(
        self, info: StructInfo, value: Register, where: str, later: list[_Check]
    ) -> None:
        """Check a value; learn sizes from it, or say what is to be checked later."""
        full = self._where(where)
        emit = self.builder.emit_to
        if isinstance(info, TupleStructInfo):
            emit([], "check_tuple", [value], [len(info.fields), full])
            for place, part in enumerate(info.fields):
                item = self.builder.emit("item", [value], [place])
                self._match(part, item, f"{where}, field {place}", later)
        elif isinstance(info, TensorStructInfo):
            sizes = info.shape.values if isinstance(info.shape, ShapeExpr) else ()
            read = self._matched(sizes, where, later, are_checked=True)
            kind = [_numbers(info), known_dtype(info)]
            emit(read, "check_tensor", [value], [*kind, full])
        elif isinstance(info, ShapeStructInfo):
            read = self._matched(info.values or (), where, later)
            emit(read, "check_shape", [value], [info.ndim, full])
        elif isinstance(info, PrimStructInfo):
            sizes = () if info.value is None else [info.value]
            read = self._matched(sizes, where, later)
            emit(read, "check_number", [value], [info.dtype, full])
        elif isinstance(info, FuncStructInfo):
            emit([], "check_function", [value], [full])

    def _matched(
        self,
        sizes: Sequence[prim.PrimExpr],
        where: str,
        later: list[_Check],
        *,
        are_checked: bool = False,
    ) -> list[Register | None]:
        """Registers for sizes that are learnt or checked later; None for others.

        Args:
            are_checked: whether those that are numbers are compared anyway.
        """
        read: list[Register | None] = []
        for axis, size in enumerate(sizes):
            register = None
            if isinstance(size, prim.Var) and self._size_of(size) is None:
                register = self._sizes[size] = self.builder.register(size.name)
            elif not (isinstance(size, prim.IntImm) and are_checked):
                register = self.builder.register("size")
                later.append((size, register, f"{where}, size {axis}"))
            read.append(register)
        return read

    def _check_sizes(self, later: list[_Check]) -> None:
        for size, value, where in later:
            immediates = [str(size), self._where(where)]
            operands = [value, self._scalar(size)]
            self.builder.emit_to([], "check_size", operands, immediates)
        later.clear()

    def _scalar(self, expr: prim.PrimExpr) -> Register:
        def register_of(var: prim.Var) -> Register:
            found = self._size_of(var)
            if found is None:
                raise self.refuse(
                    f"nothing tells `{var.name}`: expected a parameter, or a cast, "
                    "with a size that is it",
                    f"add a parameter `R.Prim(value={var.name!r})`",
                )
            return found

        return emit_scalar(self.builder, expr, register_of)

    # Bindings.

    def _sequence(self, body: SeqExpr) -> Register:
        """Write the bindings; where the value of the body is."""
        bindings = list(bindings_of(body))
        group: list[Binding] = []
        native = self._scope.native
        for number, binding in enumerate(bindings):
            is_code = native.computes(binding)
            if is_code and (group or not native.is_passed_on(binding)):
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
        """Call machine code that does what a group of bindings says."""
        tail = list[Binding]()
        while group and self._scope.native.is_passed_on(group[-1]):
            tail.insert(0, group.pop())
        if group:
            self._call_segment(group, _used_in([*tail, *rest], result))
        for binding in tail:
            self._binding(binding)

    def _call_segment(self, group: Sequence[Binding], used: set[Var]) -> None:
        made = [b.var for b in group]
        may_stop = self._scope.native.may_stop
        outputs = [b.var for b in group if b.var in used or may_stop(b)]
        if not outputs:  # casts are there for what they check
            outputs = [b.var for b in group if isinstance(b, MatchCast)]
        if not outputs:  # nothing of it is needed, and it does nothing else
            return
        read = dict.fromkeys(v for b in group for v in free_vars(b.value))
        inputs = [v for v in read if v not in made]
        body = SeqExpr([BindingBlock(group)], Tuple(outputs))
        function = Function(
            inputs, body, TupleStructInfo([v.struct_info for v in outputs])
        )
        arguments = [self._value_of(v) for v in inputs]
        missing = list(free_symbolic_vars(function))
        if missing:
            sizes = Var("sizes", TensorStructInfo([0, *missing], "uint8"))
            function = Function([*inputs, sizes], body, function.ret_struct_info)
            told = [self.builder.literal(0), *map(self._scalar, missing)]
            dtype = self.builder.literal("uint8")
            shape = self.builder.emit("tuple", told)
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
            self._choose(binding.var, value)
        elif isinstance(value, Function):
            self._inner(self._define(binding.var), value)
        else:
            self._values[binding.var] = self.value(value, binding.var.name_hint)

    def _cast(self, binding: MatchCast) -> None:
        name = binding.var.name_hint
        self._values[binding.var] = value = self.value(binding.value, name)
        later: list[_Check] = []
        self._match(binding.struct_info, value, f"match_cast of `{name}`", later)
        self._check_sizes(later)

    def _choose(self, var: Var, value: If) -> None:
        condition, blocks = self.value(value.cond), []
        for branch in (value.true_branch, value.false_branch):
            with self.builder.block() as block, self._own_sizes():
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
            name: what a new register is called.
        """
        for kind, write in _KINDS.items():
            if isinstance(expr, kind):
                return write(self, expr, name)
        raise self.refuse(
            f"cannot run `{expr!r}`", "bind it to a variable in front of its use"
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
        """The register of a tensor program."""
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


_KINDS: Mapping[type, Callable[[_Writer, Any, str], Register]] = {
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


def _numbers(info: TensorStructInfo) -> Sequence[int | None] | None:
    """The sizes of a tensor that are numbers; None for others, and for any rank."""
    if isinstance(info.shape, ShapeExpr):
        return [s.value if isinstance(s, prim.IntImm) else None for s in info.shape]
    return None if info.ndim < 0 else [None] * info.ndim


def _used_in(bindings: Iterable[Binding], result: Expr) -> set[Var]:
    found = set(used_vars(result))
    for binding in bindings:
        found.update(used_vars(binding.value))
    return found


def _free_name(stem: str, taken: Container[str]) -> str:
    number = 0
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
