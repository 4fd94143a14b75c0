"""Printing of Relax functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.expr.struct_info import StructInfo, TupleStructInfo
from relax_mlir.objects.function import Function
from relax_mlir.objects.infer.struct_info import size_vars_in
from relax_mlir.tvm.script.printer.infos import StructInfoPrinter, tuple_text
from relax_mlir.tvm.script.printer.names import NameTable
from relax_mlir.tvm.script.printer.values import Metadata, attribute_text, scalar_text

__all__ = ["FunctionPrinter", "PrinterOptions"]


@dataclass(frozen=True)
class PrinterOptions:
    """Options of the printer.

    Attributes:
        module_alias: the name by which functions refer to the module; empty for its name.
        module_name: the name of the module; empty for a stand-alone function.
        show_all_struct_info: whether bindings show struct info that can be inferred.
        is_sugared: whether calls of void type are printed as plain statements.
        vdevice: returns the printed name of a virtual device.
        with_address: whether names end in the object's address.
    """

    module_alias: str = "cls"
    module_name: str = ""
    show_all_struct_info: bool = True
    is_sugared: bool = True
    vdevice: Callable[[object], str] = str
    with_address: bool = False


@dataclass
class FunctionPrinter:
    """Prints Relax functions, line by line.

    Attributes:
        options: the options.
        names: the names of variables.
        metadata: the constants that are printed as references.
        uses_tir: whether the output uses the namespace ``T``.
    """

    options: PrinterOptions = field(default_factory=PrinterOptions)
    names: NameTable = field(default_factory=NameTable)
    metadata: Metadata = field(default_factory=Metadata)
    uses_tir: bool = False

    def __post_init__(self) -> None:
        """Initializes the output."""
        self._lines: list[str] = []
        self._indent = 0
        self._uses_module = False
        self._used: set[int] = set()
        self._infos = StructInfoPrinter(self._name, self.options.vdevice)

    def lines(self, function: Function, name: str) -> list[str]:
        """Prints a function under ``name``."""
        self._function(function, name, is_inner=False)
        lines, self._lines = self._lines, []
        return lines

    def _put(self, text: str) -> None:
        self._lines.append("    " * self._indent + text if text else "")

    @contextmanager
    def _indented(self) -> Iterator[None]:
        self._indent += 1
        yield
        self._indent -= 1

    def _name(self, variable: Any) -> str:
        """Returns the name of a variable; a free variable is named at its first use."""
        name = self.names.get(variable)
        if name is not None:
            return name
        return self.names.define(variable, variable.name_hint)

    def info(self, info: StructInfo, *, quoted: bool = False) -> str:
        """Prints struct info."""
        text = self._infos.info(info, quoted=quoted)
        self.uses_tir |= "T." in text
        return text

    def _function(self, function: Function, name: str, *, is_inner: bool) -> None:
        params, body = function.params, function.body
        symbols = [v for v in _symbols(params, body) if self.names.get(v) is None]
        for variable in symbols:
            self.names.define(variable, variable.name)
        outer = self._infos.defined
        self._infos.defined = symbols
        parameters = ", ".join(
            f"{self.names.define(p, p.name_hint)}: {self.info(p.struct_info, quoted=True)}"
            for p in params
        )
        result = self.info(function.ret_struct_info, quoted=True)
        self._infos.defined = outer
        self._put(_decorator(function, is_inner=is_inner))
        self._put(f"def {name}({parameters}) -> {result}:")
        with self._indented():
            start = len(self._lines)
            self._used = _used_variables(body)
            self._attrs(function, name)
            self._sequence(body, self._return)
            self._insert_declarations(start, symbols, is_inner=is_inner)

    def _insert_declarations(
        self, start: int, symbols: Sequence[prim.Var], *, is_inner: bool
    ) -> None:
        """Inserts the declarations of sizes and of the module alias at line ``start``."""
        after, self._lines = self._lines[start:], self._lines[:start]
        for variable in symbols:
            self.uses_tir = True
            self._put(f"{self._name(variable)} = T.{variable.dtype}()")
        attrs = [line for line in after[:1] if line.strip().startswith("R.func_attr(")]
        self._lines += attrs
        if self._uses_module and not is_inner and self.options.module_alias:
            self._put(f"{self.options.module_alias} = {self.options.module_name}")
        self._lines += after[len(attrs) :]

    def _attrs(self, function: Function, name: str) -> None:
        attrs = dict(function.attrs)
        if attrs.get("global_symbol") == name:
            del attrs["global_symbol"]
        if attrs:
            self._put(f"R.func_attr({self._attribute(attrs)})")

    def _return(self, value: Expr) -> None:
        self._put(f"return {self.expr(value)}")

    def _sequence(self, body: SeqExpr, finish: Callable[[Expr], None]) -> None:
        for block in body.blocks:
            self._block(block)
        finish(body.body)

    def _block(self, block: BindingBlock) -> None:
        if not isinstance(block, DataflowBlock):
            for binding in block.bindings:
                self._binding(binding)
            return
        self._put("with R.dataflow():")
        with self._indented():
            for binding in block.bindings:
                self._binding(binding)
            outputs = [
                self._name(b.var)
                for b in block.bindings
                if not isinstance(b.var, DataflowVar)
            ]
            self._put(f"R.output({', '.join(outputs)})")

    def _binding(self, binding: Binding) -> None:
        value = binding.value
        if isinstance(binding, MatchCast):
            info = self.info(binding.struct_info)
            cast = f"R.match_cast({self.expr(value)}, {info})"
            self._assign(binding.var, cast, shows=self.options.show_all_struct_info)
        elif isinstance(value, If):
            self._if(binding.var, value)
        elif isinstance(value, Function):
            name = self.names.define(binding.var, binding.var.name_hint)
            self._function(value, name, is_inner=True)
            self._put("")
        elif self._is_statement(binding):
            self._put(self.expr(value))
        else:
            self._assign(
                binding.var,
                self._right_hand_side(value),
                shows=self._shows_struct_info(binding),
            )

    def _right_hand_side(self, value: Expr) -> str:
        """Prints the right-hand side of ``=``, where tuples need no parentheses."""
        if isinstance(value, Tuple) and len(value.fields) > 1:
            return ", ".join(map(self.expr, value.fields))
        return self.expr(value)

    def _is_statement(self, binding: Binding) -> bool:
        """Whether a binding is a void call with an unused value, printed as a statement."""
        is_used = id(binding.var) in self._used
        return self.options.is_sugared and _is_void(binding) and not is_used

    def _shows_struct_info(self, binding: Binding) -> bool:
        """Whether a binding is printed with an annotation."""
        value = binding.value
        if isinstance(value, Call) and value.op in _WITH_OUT_SINFO:
            return binding.var.struct_info_or_none() != value.sinfo_args[0]
        if self.options.show_all_struct_info:
            return True
        return _inferred_struct_info(value) != binding.var.struct_info_or_none()

    def _assign(self, var: Var, value: str, *, shows: bool = True) -> None:
        info = var.struct_info_or_none()
        annotation = f": {self.info(info)}" if shows and info is not None else ""
        name = self.names.define(var, var.name_hint)
        self._put(f"{name}{annotation} = {value}")

    def _if(self, var: Var, value: If) -> None:
        self.names.define(var, var.name_hint)

        self._put(f"if {self.expr(value.cond)}:")
        with self._indented():
            self._branch(var, value.true_branch)
        self._put("else:")
        with self._indented():
            self._branch(var, value.false_branch)

    def _branch(self, var: Var, branch: SeqExpr) -> None:
        def finish(value: Expr) -> None:
            last = branch.blocks[-1].bindings[-1] if branch.blocks else None
            is_printed = (
                last is not None and last.var is value and self._is_statement(last)
            )
            if not is_printed:
                self._assign(var, self.expr(value))

        self._sequence(branch, finish)

    def expr(self, value: Expr) -> str:
        """Prints an expression."""
        for kind, print_expr in _EXPR_PRINTERS.items():
            if isinstance(value, kind):
                return print_expr(self, value)
        raise TypeError(f"`{type(value).__name__}` has no script")

    def _attribute(self, value: Any) -> str:
        text = attribute_text(value, self._prim_expr)
        self.uses_tir |= "T." in text
        return text

    def _prim_expr(self, expr: prim.PrimExpr) -> str:
        text = self._infos.value(expr)
        self.uses_tir |= "T." in text
        return text

    def _shape(self, value: ShapeExpr) -> str:
        sizes = [self._infos.expr(v) for v in value.values]
        self.uses_tir |= any("T." in size for size in sizes)
        return f"R.shape([{', '.join(sizes)}])"

    def _constant(self, value: Constant) -> str:
        if value.array.ndim == 0:
            return f'R.const({scalar_text(value.array)}, "{value.array.dtype.name}")'
        return self.metadata.reference(value.array)

    def _tuple(self, value: Tuple) -> str:
        if not value.fields:
            return "R.tuple()"
        return tuple_text([self.expr(f) for f in value.fields])

    def _global(self, value: GlobalVar) -> str:
        if not self.options.module_name:
            return value.name_hint
        self._uses_module = True
        owner = self.options.module_alias or self.options.module_name
        return f"{owner}.{value.name_hint}"

    def _call(self, call: Call) -> str:
        callee = call.op
        if isinstance(callee, Op):
            print_call = _CALL_PRINTERS.get(callee.name)
            if print_call is not None:
                return print_call(self, call)
            return self._operator(call, callee.name)
        if isinstance(callee, ExternFunc):
            name = _quoted(callee.global_symbol)
            parts = [name, *map(self.expr, call.args), *self._keywords(call)]
            return f"R.call_packed({', '.join([*parts, *self._sinfo_args(call)])})"
        return f"{self.expr(callee)}({', '.join(map(self.expr, call.args))})"

    def _operator(self, call: Call, name: str) -> str:
        args = [self.expr(a) for a in call.args]
        if call.sinfo_args and name not in _WITH_SINFO_ARGS:
            infos = tuple_text([self.info(i) for i in call.sinfo_args])
            return f"R.emit_with_sinfo({_quoted(name)}, {tuple_text(args)}, {infos})"
        parts = [*args, *self._keywords(call)]
        return f"R.{name.removeprefix('relax.')}({', '.join(parts)})"

    def _keywords(self, call: Call) -> list[str]:
        attrs = dict(call.attrs)
        if call.op == _TO_VDEVICE:
            attrs["dst_vdevice"] = self.options.vdevice(attrs["dst_vdevice"])
        return [f"{n}={self._attribute(v)}" for n, v in attrs.items()]

    def _sinfo_args(self, call: Call) -> list[str]:
        if not call.sinfo_args:
            return []
        return [f"sinfo_args={tuple_text([self.info(i) for i in call.sinfo_args])}"]

    def _callee(self, callee: Expr) -> str:
        if isinstance(callee, ExternFunc):
            return _quoted(callee.global_symbol)
        return self.expr(callee)

    def _destination_passing(self, call: Call) -> str:
        """Prints ``R.call_tir`` and the other destination-passing calls."""
        assert isinstance(call.op, Op)
        callee, args, *tir_vars = call.args
        (info,) = call.sinfo_args
        out = self.info(info)
        if isinstance(info, TupleStructInfo):
            out = f"[{', '.join(map(self.info, info.fields))}]"
        parts = [self._callee(callee), self.expr(args), f"out_sinfo={out}"]
        parts += self._keywords(call)
        if tir_vars:
            parts.append(f"tir_vars={self.expr(tir_vars[0])}")
        return f"R.{call.op.name.removeprefix('relax.')}({', '.join(parts)})"

    def _packed(self, call: Call) -> str:
        """Prints ``R.call_pure_packed`` and the other calls of packed functions."""
        assert isinstance(call.op, Op)
        callee, *args = call.args
        parts = [self._callee(callee), *map(self.expr, args), *self._keywords(call)]
        name = call.op.name.removeprefix("relax.")
        return f"R.{name}({', '.join([*parts, *self._sinfo_args(call)])})"

    def _dense(self, call: Call) -> str:
        """Prints ``R.nn.dense`` without attributes that are None."""
        attrs = {n: v for n, v in call.attrs.items() if v is not None}
        return self._operator(Call(call.op, call.args, attrs), "relax.nn.dense")

    def _formatted(self, call: Call) -> str:
        """Prints ``R.print``, whose first argument is the format string."""
        text, *values = call.args
        parts = [*map(self.expr, values), f"format={self.expr(text)}"]
        return f"R.print({', '.join(parts)})"

    def _assert(self, call: Call) -> str:
        """Prints ``R.assert_op``, whose second argument is the format string."""
        condition, text, *values = call.args
        parts = [self.expr(condition)]
        if len(values) == 1:
            parts.append(self.expr(values[0]))
        elif values:
            parts.append(f"[{', '.join(map(self.expr, values))}]")
        return f"R.assert_op({', '.join(parts)}, format={self.expr(text)})"


def _inferred_struct_info(value: Expr) -> StructInfo | None:
    """Infers the struct info of a value, ignoring its annotation."""
    if not isinstance(value, Call):
        return value.struct_info_or_none()
    copy = Call(value.op, value.args, value.attrs, value.sinfo_args)
    try:
        return BlockBuilder().normalize(copy).struct_info_or_none()
    except ValueError:
        return None


def _used_variables(value: Any) -> set[int]:
    """Collects ids of variables used as operands; results of branches do not count."""
    if value is None or isinstance(value, Op):
        return set()
    if isinstance(value, Var):
        return {id(value)}
    if isinstance(value, SeqExpr):
        used = _used_variables(value.body)
        for block in value.blocks:
            for binding in block.bindings:
                used |= _used_variables(binding.value)
        return used
    if isinstance(value, If):
        used = _used_variables(value.cond)
        for branch in (value.true_branch, value.false_branch):
            used |= _used_variables(SeqExpr(branch.blocks, Tuple(())))
        return used
    if isinstance(value, Function):
        return _used_variables(value.body)
    parts = getattr(value, "args", ()) or getattr(value, "fields", ())
    callee = getattr(value, "op", None) if isinstance(value, Call) else None
    source = getattr(value, "tuple_value", None)
    return set().union(*map(_used_variables, (*parts, callee, source)))


def _decorator(function: Function, *, is_inner: bool) -> str:
    options = []
    if not function.is_pure:
        options.append("pure=False")
    if not is_inner and "global_symbol" not in function.attrs:
        options.append("private=True")
    return f"@R.function({', '.join(options)})" if options else "@R.function"


def _is_void(binding: Binding) -> bool:
    void = TupleStructInfo([])
    is_void_value = binding.value.struct_info_or_none() == void
    is_call = isinstance(binding.value, Call)
    return is_call and is_void_value and binding.var.struct_info_or_none() == void


def _symbols(params: Sequence[Var], body: SeqExpr) -> list[prim.Var]:
    """Collects the symbolic variables of a function in order of first occurrence."""
    in_params = [v for param in params for v in size_vars_in(param.struct_info)]
    return list({id(v): v for v in (*in_params, *_symbols_in(body))}.values())


def _symbols_in(value: Any) -> Iterator[prim.Var]:
    if isinstance(value, SeqExpr):
        for block in value.blocks:
            yield from _symbols_in([*block.bindings])
        yield from _symbols_in(value.body)
    elif isinstance(value, StructInfo):
        yield from size_vars_in(value)
    elif isinstance(value, prim.PrimExpr):
        yield from (t for t in prim.post_order(value) if isinstance(t, prim.Var))
    else:
        for part in _parts(value):
            yield from _symbols_in(part)


def _parts(value: Any) -> Iterable[Any]:
    """Returns the children of a node that may contain symbolic variables."""
    if isinstance(value, Binding):
        is_function = isinstance(value.value, Function)  # it declares its own
        return () if is_function else (value.value, value.var.struct_info_or_none())
    if isinstance(value, If):
        return (value.cond, value.true_branch, value.false_branch)
    if isinstance(value, Call):
        return (*value.args, *value.attrs.values(), *value.sinfo_args)
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, TupleGetItem):
        return (value.tuple_value,)
    if isinstance(value, (ShapeExpr, PrimValue)):
        return (value.struct_info,)
    return value if isinstance(value, (Tuple, list, tuple)) else ()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TO_VDEVICE = Op.of("relax.to_vdevice")
_WITH_OUT_SINFO = (Op.of("relax.call_tir"), Op.of("relax.call_dps_packed"))
_WITH_SINFO_ARGS = frozenset(
    {"relax.null_value", "relax.make_closure", "relax.print", "relax.assert_op"}
)
_CALL_PRINTERS: Mapping[str, Callable[[FunctionPrinter, Call], str]] = {
    "relax.assert_op": FunctionPrinter._assert,
    "relax.call_builtin_with_ctx": FunctionPrinter._packed,
    "relax.call_dps_packed": FunctionPrinter._destination_passing,
    "relax.call_inplace_packed": FunctionPrinter._packed,
    "relax.call_pure_packed": FunctionPrinter._packed,
    "relax.call_py_func": FunctionPrinter._destination_passing,
    "relax.call_tir": FunctionPrinter._destination_passing,
    "relax.call_tir_inplace": FunctionPrinter._destination_passing,
    "relax.call_tir_with_grad": FunctionPrinter._destination_passing,
    "relax.invoke_closure": FunctionPrinter._packed,
    "relax.invoke_pure_closure": FunctionPrinter._packed,
    "relax.nn.dense": FunctionPrinter._dense,
    "relax.print": FunctionPrinter._formatted,
}
_EXPR_PRINTERS: Mapping[type, Callable[[FunctionPrinter, Any], str]] = {
    Var: lambda p, v: p._name(v),
    Call: FunctionPrinter._call,
    Constant: FunctionPrinter._constant,
    Tuple: FunctionPrinter._tuple,
    TupleGetItem: lambda p, e: f"{p.expr(e.tuple_value)}[{e.index}]",
    ShapeExpr: FunctionPrinter._shape,
    PrimValue: lambda p, v: f"R.prim_value({p._prim_expr(v.value)})",
    StringImm: lambda p, v: f"R.str({_quoted(v.value)})",
    DataTypeImm: lambda p, v: f"R.dtype({_quoted(v.value)})",
    GlobalVar: FunctionPrinter._global,
    ExternFunc: lambda p, v: f"R.ExternFunc({_quoted(v.global_symbol)})",
}
