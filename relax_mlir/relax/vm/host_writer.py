"""Functions that are no machine code as Python: control, checks, calls of functions.

What computes tensors in them is machine code all the same: every run of such bindings
becomes a function of its own, a segment, which the Python calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from relax_mlir.objects.names import identifier
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
from relax_mlir.relax.vm.host_operators import known_dtype, operator_code
from relax_mlir.relax.vm.native import Native, bindings_of
from relax_mlir.relax.vm.prim_code import prim_code

__all__ = ["HostProgram", "write_host"]

_GLOBAL = ("f_", "program_", "constant_")  # what names outside of functions begin with


@dataclass
class HostProgram:
    """The Python of a module, and what it calls.

    Attributes:
        text: functions, one for each of the module that is no machine code.
        segments: by name, functions of tensors that are to be machine code.
        programs: names of tensor programs that are called by themselves.
        constants: arrays by name.
    """

    text: str = ""
    segments: dict[str, Function] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def taken(self) -> set[str]:
        """All names that mean something."""
        return {*self.segments, *self.programs, *self.constants}


def write_host(module: IRModule, names: Sequence[str], native: Native) -> HostProgram:
    """The functions called ``names``, and those that they call, as Python.

    Raises:
        UnsupportedError: something in them has no meaning when a program runs.
    """
    program = HostProgram()
    waiting, written = list(names), list[str]()
    texts = []
    while waiting:
        name = waiting.pop(0)
        if name in written:
            continue
        written.append(name)
        function = module[name]
        writer = _Writer(module, native, program, name)
        texts.append(writer.function(f"f_{name}", function))
        waiting += writer.called
    program.text = "\n\n".join(texts)
    return program


class _Writer:
    """Writes one function."""

    def __init__(
        self, module: IRModule, native: Native, program: HostProgram, name: str
    ) -> None:
        self._module, self._native, self._program = module, native, program
        self._name = name
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[Var, str] = {}
        self._sizes: dict[prim.Var, str] = {}
        self._used = {"rt", f"f_{name}"}
        self.called: list[str] = []

    # Lines and names.

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def _own_sizes(self) -> Iterator[None]:
        """Sizes that are learnt inside are not known behind."""
        known = dict(self._sizes)
        yield
        self._sizes = known

    def _new(self, hint: str) -> str:
        clean = identifier(hint)
        if clean.startswith(_GLOBAL) or "_segment_" in clean:
            clean = f"v_{clean}"
        name, number = clean, 0
        while name in self._used:
            number += 1
            name = f"{clean}_{number}"
        self._used.add(name)
        return name

    def _define(self, var: Var) -> str:
        self._names[var] = self._new(var.name_hint)
        return self._names[var]

    def _where(self, what: str) -> str:
        return repr(f"`{self._name}`: {what}")

    def refuse(self, what: str, hint: str) -> UnsupportedError:
        """The error for what cannot be run."""
        return UnsupportedError(f"`{self._name}`: {what}. Hint: {hint}")

    # Functions.

    def function(self, name: str, function: Function) -> str:
        """The text of a function."""
        self._define_function(name, function)
        return "\n".join(self._lines)

    def _define_function(self, name: str, function: Function) -> None:
        params = [self._define(p) for p in function.params]
        self._line(f"def {name}({', '.join(params)}):")
        with self._indented(), self._own_sizes():
            later: list[tuple[prim.PrimExpr, str, str]] = []
            for param, text in zip(function.params, params, strict=True):
                where = f"parameter `{param.name_hint}`"
                self._match(param.struct_info, text, where, later)
            self._check_sizes(later)
            result = self._sequence(function.body)
            self._return(function, result)

    def _return(self, function: Function, result: str) -> None:
        stated = function.ret_struct_info
        told = function.body.struct_info_or_none()
        if told is not None and stated.is_base_of(told):
            self._line(f"return {result}")
            return
        name = self._new("result")
        self._line(f"{name} = {result}")
        later: list[tuple[prim.PrimExpr, str, str]] = []
        self._match(stated, name, "return value", later)
        self._check_sizes(later)
        self._line(f"return {name}")

    # What values must be.

    def _match(
        self,
        info: StructInfo,
        text: str,
        where: str,
        later: list[tuple[prim.PrimExpr, str, str]],
    ) -> None:
        """Check a value; learn sizes from it, or say what is to be checked later."""
        if isinstance(info, TupleStructInfo):
            self._line(
                f"rt.check_tuple({text}, {len(info.fields)}, {self._where(where)})"
            )
            for place, part in enumerate(info.fields):
                self._match(part, f"{text}[{place}]", f"{where}, field {place}", later)
        elif isinstance(info, TensorStructInfo):
            kind = f"{_numbers(info)}, {known_dtype(info)!r}"
            self._line(f"rt.check_tensor({text}, {kind}, {self._where(where)})")
            if isinstance(info.shape, ShapeExpr):
                parts = [f"{text}.shape[{i}]" for i in range(info.ndim)]
                self._match_sizes(info.shape.values, parts, where, later, True)
        elif isinstance(info, ShapeStructInfo):
            self._line(f"rt.check_shape({text}, {info.ndim}, {self._where(where)})")
            if info.values is not None:
                parts = [f"{text}[{i}]" for i in range(info.ndim)]
                self._match_sizes(info.values, parts, where, later)
        elif isinstance(info, PrimStructInfo):
            self._line(f"rt.check_number({text}, {info.dtype!r}, {self._where(where)})")
            if info.value is not None:
                self._match_sizes([info.value], [text], where, later)
        elif isinstance(info, FuncStructInfo):
            self._line(f"rt.check_function({text}, {self._where(where)})")

    def _match_sizes(
        self,
        sizes: Sequence[prim.PrimExpr],
        texts: Sequence[str],
        where: str,
        later: list[tuple[prim.PrimExpr, str, str]],
        are_checked: bool = False,
    ) -> None:
        for axis, (size, text) in enumerate(zip(sizes, texts, strict=True)):
            if isinstance(size, prim.Var) and size not in self._sizes:
                self._sizes[size] = self._new(size.name)
                self._line(f"{self._sizes[size]} = {text}")
            elif not (isinstance(size, prim.IntImm) and are_checked):
                later.append((size, text, f"{where}, size {axis}"))

    def _check_sizes(self, later: list[tuple[prim.PrimExpr, str, str]]) -> None:
        for size, text, where in later:
            stated = f"{self._prim(size)}, {str(size)!r}"
            self._line(f"rt.check_size({text}, {stated}, {self._where(where)})")
        later.clear()

    def _prim(self, expr: prim.PrimExpr) -> str:
        def name_of(var: prim.Var) -> str:
            if var not in self._sizes:
                raise self.refuse(
                    f"nothing tells `{var.name}`: expected a parameter, or a cast, "
                    "with a size that is it",
                    f"add a parameter `R.Prim(value={var.name!r})`",
                )
            return self._sizes[var]

        return prim_code(expr, name_of)

    # Bindings.

    def _sequence(self, body: SeqExpr) -> str:
        """Write the bindings; what the body gives, as text."""
        bindings = list(bindings_of(body))
        group: list[Binding] = []
        for number, binding in enumerate(bindings):
            is_code = self._native.computes(binding)
            if is_code and (group or not self._native.is_passed_on(binding)):
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
        while group and self._native.is_passed_on(group[-1]):
            tail.insert(0, group.pop())
        if group:
            self._call_segment(group, _used_in([*tail, *rest], result))
        for binding in tail:
            self._binding(binding)

    def _call_segment(self, group: Sequence[Binding], used: set[Var]) -> None:
        made = [b.var for b in group]
        outputs = [v for v in made if v in used]
        if not outputs:  # nothing of it is needed, and it does nothing else
            return
        read = dict.fromkeys(v for b in group for v in free_vars(b.value))
        inputs = [v for v in read if v not in made]
        body = SeqExpr([BindingBlock(group)], Tuple(outputs))
        function = Function(
            inputs, body, TupleStructInfo([v.struct_info for v in outputs])
        )
        arguments = [self._names[v] for v in inputs]
        missing = list(free_symbolic_vars(function))
        if missing:
            sizes = Var("sizes", TensorStructInfo([0, *missing], "uint8"))
            function = Function([*inputs, sizes], body, function.ret_struct_info)
            told = ", ".join(self._prim(v) for v in missing)
            arguments.append(f"rt.empty((0, {told}), 'uint8')")
        name = _free_name(f"{self._name}_segment", self._program.taken)
        self._program.segments[name] = function
        targets = ", ".join(self._define(v) for v in outputs)
        self._line(f"[{targets}] = {name}({', '.join(arguments)})")

    def _binding(self, binding: Binding) -> None:
        if isinstance(binding, MatchCast):
            self._cast(binding)
            return
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, If):
            self._choose(binding.var, value)
        elif isinstance(value, Function):
            name = self._define(binding.var)
            self._define_function(name, value)
        else:
            text = self.value(value)
            self._line(f"{self._define(binding.var)} = {text}")

    def _cast(self, binding: MatchCast) -> None:
        text = self.value(binding.value)
        name = self._define(binding.var)
        self._line(f"{name} = {text}")
        later: list[tuple[prim.PrimExpr, str, str]] = []
        self._match(
            binding.struct_info, name, f"match_cast of `{binding.var.name_hint}`", later
        )
        self._check_sizes(later)

    def _choose(self, var: Var, value: If) -> None:
        condition = self.value(value.cond)
        name = self._new(var.name_hint)
        for head, branch in (
            (f"if rt.truth({condition}):", value.true_branch),
            ("else:", value.false_branch),
        ):
            self._line(head)
            with self._indented(), self._own_sizes():
                self._line(f"{name} = {self._sequence(as_sequence(branch))}")
        self._names[var] = name

    # Values.

    def value(self, expr: Expr) -> str:
        """An expression as Python."""
        for kind, write in _KINDS.items():
            if isinstance(expr, kind):
                return write(self, expr)
        raise self.refuse(
            f"cannot run `{expr!r}`", "bind it to a variable in front of its use"
        )

    def _fields(self, expr: Tuple) -> str:
        return f"[{self.values(expr.fields)}]"

    def _field(self, expr: TupleGetItem) -> str:
        return f"{self.value(expr.tuple_value)}[{expr.index}]"

    def _shape(self, expr: ShapeExpr) -> str:
        return f"rt.Shape([{', '.join(map(self._prim, expr.values))}])"

    def _inner_function(self, expr: Function) -> str:
        name = self._new("function")
        self._define_function(name, expr)
        return name

    def values(self, exprs: Iterable[Expr]) -> str:
        """Expressions as Python, with commas."""
        return ", ".join(map(self.value, exprs))

    def _constant(self, expr: Constant) -> str:
        name = _free_name("constant", self._program.taken)
        self._program.constants[name] = np.asarray(expr.data)
        return name

    def _callee(self, var: GlobalVar) -> str:
        name = var.name_hint
        if var not in self._module:
            raise self.refuse(
                f"module has no function `{name}`", "add it by `update_func`"
            )
        if not isinstance(self._module[name], Function):
            return self.program_name(var)
        self.called.append(name)
        return f"f_{name}"

    def program_name(self, var: GlobalVar) -> str:
        """What a tensor program is called in the Python."""
        name = f"program_{var.name_hint}"
        self._program.programs[name] = var.name_hint
        return name

    def _call(self, call: Call) -> str:
        if isinstance(call.op, Op):
            return operator_code(call, self)
        if isinstance(call.op, ExternFunc):
            return f"rt.packed({call.op.global_symbol!r})({self.values(call.args)})"
        return f"{self.value(call.op)}({self.values(call.args)})"


_KINDS: Mapping[type, Callable[[_Writer, Any], str]] = {
    Var: lambda writer, expr: writer._names[expr],
    Tuple: _Writer._fields,
    TupleGetItem: _Writer._field,
    ShapeExpr: _Writer._shape,
    PrimValue: lambda writer, expr: writer._prim(expr.value),
    prim.PrimExpr: _Writer._prim,
    StringImm: lambda writer, expr: repr(expr.value),
    DataTypeImm: lambda writer, expr: repr(expr.value),
    Constant: _Writer._constant,
    GlobalVar: _Writer._callee,
    ExternFunc: lambda writer, expr: f"rt.packed({expr.global_symbol!r})",
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


def _free_name(stem: str, taken: set[str]) -> str:
    number = 0
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"
