"""Prints Relax functions in Relay's text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from relax_mlir.errors import IRError, short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import Function

__all__ = ["text_of"]

_SUFFIXES = {"float32": "f", "float64": "f64", "int32": "", "int64": "i64"}


def text_of(module: IRModule) -> str:
    """Prints ``main``; the Relax functions that it calls are printed at their calls."""
    return "\n".join(_Printer(module).function(module["main"], "", "fn "))


class _Printer:
    """Prints one function; values are numbered from %0."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self._next_number = 0
        self._name_counts: Counter[str] = Counter()

    def function(self, function: Function, indent: str, head: str) -> list[str]:
        """Prints a function, line by line."""
        is_inner = bool(indent)
        names = {
            id(p): self._unique(f"%p{number}" if is_inner else f"%{p.name_hint}")
            for number, p in enumerate(function.params)
        }
        params = ", ".join(
            f"{names[id(p)]}: {_type(p.struct_info)}" for p in function.params
        )
        result = _type(function.ret_struct_info)
        lines = [f"{indent}{head}({params}) -> {result} {{"]
        body = function.body
        inner = indent + "  "
        for binding in (b for block in body.blocks for b in block.bindings):
            if isinstance(binding.value, (Var, Constant)):
                names[id(binding.var)] = self._value(binding.value, names)
                continue
            lines += self._binding(binding.value, names, inner)
            names[id(binding.var)] = f"%{self._next_number - 1}"
        return [*lines, inner + self._value(body.body, names), indent + "}"]

    def _unique(self, name: str) -> str:
        """Returns ``name``, with a number appended if it is already in use."""
        count = self._name_counts[name]
        self._name_counts[name] += 1
        return f"{name}{count}" if count else name

    def _binding(self, value: Expr, names: dict[int, str], indent: str) -> list[str]:
        """Prints ``%n = value``, after the definition of a Relax function it calls."""
        callee, args = self._call(value)
        if isinstance(callee, GlobalVar) and self._is_relax_function(callee):
            head = f"%{self._next()} = fn"
            lines = self.function(self.module[callee], indent, head)
            callee_name = head.split(" ")[0]
        else:
            lines, callee_name = [], self._name(callee)
        if isinstance(value, TupleGetItem):
            source = self._value(value.tuple_value, names)
            return [f"{indent}%{self._next()} = {source}.{value.index}"]
        operands = ", ".join(self._value(a, names) for a in args)
        return [*lines, f"{indent}%{self._next()} = {callee_name}({operands})"]

    def _next(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _is_relax_function(self, name: GlobalVar) -> bool:
        return isinstance(self.module[name], Function)

    @staticmethod
    def _call(value: Expr) -> tuple[Expr | None, Sequence[Expr]]:
        """Returns callee and arguments; for ``call_tir``, those of the PrimFunc."""
        if not isinstance(value, Call):
            return None, ()
        if value.op == Op.of("relax.call_tir"):
            callee, args = value.args[:2]
            return callee, args.fields if isinstance(args, Tuple) else (args,)
        return value.op, value.args

    @staticmethod
    def _name(callee: Expr | None) -> str:
        if isinstance(callee, Op):
            return callee.name.rpartition(".")[2]
        name = callee.name_hint if isinstance(callee, GlobalVar) else ""
        return name.removeprefix("tir_")

    def _value(self, value: Expr, names: dict[int, str]) -> str:
        if isinstance(value, Constant):
            array = value.array
            if array.ndim:
                return "meta[relay.Constant]"
            return f"{array.item():g}{_SUFFIXES.get(array.dtype.name, '')}"
        if isinstance(value, Tuple):
            return f"({', '.join(self._value(f, names) for f in value.fields)})"
        if id(value) not in names:
            raise IRError(f"astext: {short_repr(value)}: expected a bound variable")
        return names[id(value)]


def _type(info: StructInfo) -> str:
    if isinstance(info, TupleStructInfo):
        return f"({', '.join(map(_type, info.fields))})"
    if not isinstance(info, TensorStructInfo):
        return str(info)
    if info.ndim == 0:
        return info.dtype
    shape = "?" * max(info.ndim, 1) if info.shape is None else map(str, info.shape)
    return f"Tensor[({', '.join(shape)}), {info.dtype}]"
