"""Scalars of tensor programs as scripts spell them."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.objects import functions, prim
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import IntImm, Range, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.simplify import simplify
from relax_mlir.script.printer.pointers import Pointers, underlined
from relax_mlir.script.tir_calls import INTRINSICS

__all__ = ["TermText"]

# How strongly Python's operators bind.
_OR, _AND, _NOT, _COMPARE, _SHIFT, _SUM, _PRODUCT, _UNARY = 2, 3, 4, 5, 9, 10, 11, 12
_OPERATORS: Mapping[type, tuple[str, int]] = {
    prim.Add: ("+", _SUM),
    prim.Sub: ("-", _SUM),
    prim.Mul: ("*", _PRODUCT),
    prim.FloorDiv: ("//", _PRODUCT),
    prim.FloorMod: ("%", _PRODUCT),
    prim.EQ: ("==", _COMPARE),
    prim.NE: ("!=", _COMPARE),
    prim.LT: ("<", _COMPARE),
    prim.LE: ("<=", _COMPARE),
    prim.GT: (">", _COMPARE),
    prim.GE: (">=", _COMPARE),
    prim.And: ("and", _AND),
    prim.Or: ("or", _OR),
}
_BITWISE: Mapping[str, tuple[str, int]] = {
    "bitwise_or": ("|", 6),
    "bitwise_xor": ("^", 7),
    "bitwise_and": ("&", 8),
    "shift_left": ("<<", _SHIFT),
    "shift_right": (">>", _SHIFT),
}
_FUNCTIONS: Mapping[type, str] = {
    prim.Min: "min",
    prim.Max: "max",
    prim.Mod: "truncmod",
    prim.Div: "Div",
    prim.Select: "Select",
}
_NUMBERS = (IntImm, prim.FloatImm)
# Functions whose first argument is their type.
_TYPED = frozenset(
    {
        *("call_extern", "call_pure_extern", "call_llvm_intrin"),
        *("call_llvm_pure_intrin", "reinterpret"),
    }
)


class TermText:
    """Spells scalars.

    Args:
        name: what a variable or a buffer is called.
        module_name: what the module is called.
        pointers: what is underlined.
    """

    def __init__(
        self,
        name: Callable[[Any], str],
        module_name: str = "Module",
        pointers: Pointers | None = None,
    ) -> None:
        self._name = name
        self.module_name = module_name
        self.pointers = pointers or Pointers()
        # By the id of a term, which is kept so that the id is of use.
        self._readings: dict[int, tuple[prim.PrimExpr, prim.PrimExpr]] = {}

    def text(self, term: Any, outer: int = 0) -> str:
        """A scalar, in parentheses if it binds less than ``outer``."""
        text = self._spelled(term, outer)
        return underlined(text) if self.pointers.has(term) else text

    def _spelled(self, term: Any, outer: int) -> str:
        if isinstance(term, Pointer) and term.buffer is not None:
            return f"{self._name(term.buffer)}.data"
        if isinstance(term, Var):
            return self._name(term)
        if isinstance(term, (IntImm, prim.FloatImm)):
            return _number(term, outer)
        if isinstance(term, prim.StringImm):
            return json.dumps(term.value, ensure_ascii=False)
        if isinstance(term, BufferLoad):
            return self._load(term)
        if isinstance(term, prim.Call):
            return self._call(term, outer)
        return self._operation(term, outer)

    def list(self, terms: Any) -> str:
        """Scalars with commas between."""
        return ", ".join(map(self.text, terms))

    def tuple(self, terms: Any) -> str:
        """Scalars as a tuple."""
        listed = list(terms)
        return f"({self.list(listed)}{',' if len(listed) == 1 else ''})"

    def _operation(self, term: Any, outer: int) -> str:
        if isinstance(term, prim.BinaryExpr) and self._folds(term):
            return f"T.{type(term).__name__}({self.list(term.children())})"
        if isinstance(term, prim.Div) and not term.is_integer:
            return self._infix("/", _PRODUCT, term.a, term.b, outer)
        if type(term) in _OPERATORS:
            return self._infix(*_OPERATORS[type(term)], term.a, term.b, outer)
        if isinstance(term, prim.Not):
            return _enclosed(f"not {self.text(term.a, _NOT)}", _NOT, outer)
        if isinstance(term, prim.Cast):
            return f'T.Cast("{term.dtype}", {self.text(term.value)})'
        if isinstance(term, (prim.Ramp, prim.Broadcast)):
            parts = [*term.children(), term.lanes]
            return f"T.{type(term).__name__}({self.list(parts)})"
        if isinstance(term, prim.Shuffle):
            return (
                f"T.Shuffle([{self.list(term.vectors)}], [{self.list(term.indices)}])"
            )
        if isinstance(term, prim.Let):
            where = f"{{{self.text(term.var)}: {self.text(term.value)}}}"
            return f"T.Let({self.text(term.body)}, where={where})"
        name = _FUNCTIONS.get(type(term))
        if name is None:
            return text_of(term)
        return f"T.{name}({self.list(term.children())})"

    def _folds(self, term: prim.BinaryExpr) -> bool:
        """Whether a script that spells a term with its operator is read as another term."""
        if isinstance(term, (prim.And, prim.Or)):
            return False
        try:
            made = prim.binary(type(term), *map(self._parsed, term.children()))
        except ZeroDivisionError:
            return True
        return type(made) is not type(term)

    def _parsed(self, term: prim.PrimExpr) -> prim.PrimExpr:
        """What the spelling of a term is read as: functions of numbers fold there."""
        known = self._readings.get(id(term))
        if known is None:
            known = self._readings[id(term)] = (term, self._folded(term))
        return known[1]

    def _folded(self, term: prim.PrimExpr) -> prim.PrimExpr:
        if not isinstance(term, (prim.BinaryExpr, prim.Call)):
            return term
        children = list(map(self._parsed, term.children()))
        if isinstance(term, prim.BinaryExpr):
            is_same = all(map(operator.is_, children, term.children()))
            return term if is_same else type(term)(*children)
        if not children or not all(isinstance(c, _NUMBERS) for c in children):
            return term
        function = getattr(functions, term.op_name, None)
        if function is None or term.op_name not in functions.__all__:
            return term
        try:
            made = function(*children)
        except (TypeError, ValueError):
            return term
        return made if isinstance(made, _NUMBERS) else term

    def _load(self, term: BufferLoad) -> str:
        if term.predicate is None:
            return self.element(term.buffer, term.indices)
        name, places = self._name(term.buffer), self.list(term.indices)
        return f"{name}.vload([{places}], predicate={self.text(term.predicate)})"

    def element(self, buffer: Buffer, indices: Sequence[Any]) -> str:
        """An element, or a vector of them."""
        places = ", ".join(map(self._index, indices))
        return f"{self._name(buffer)}[{places or '()'}]"

    def _index(self, index: Any) -> str:
        """An index; a vector of places in order as a slice."""
        stride = _number_of(index.stride) if isinstance(index, prim.Ramp) else None
        if stride is None or stride < 1 or self.pointers.has(index):
            return self.text(index)
        stop = simplify(index.base + index.lanes * stride)
        step = "" if stride == 1 else f":{stride}"
        return f"{self.text(index.base)}:{self.text(stop)}{step}"

    def _infix(self, symbol: str, level: int, a: Any, b: Any, outer: int) -> str:
        # A comparison beside a comparison would be a chain.
        left = self.text(a, level + (level == _COMPARE))
        right = self.text(b, level + 1)
        return _enclosed(f"{left} {symbol} {right}", level, outer)

    def _call(self, term: prim.Call, outer: int) -> str:
        name, args = term.op_name, term.args
        if term.is_subroutine:
            return f"{self.module_name}.{name}({self.list(args)})"
        if name in _BITWISE and len(args) == 2:
            return self._infix(*_BITWISE[name], *args, outer)
        if name == "bitwise_not":
            return _enclosed(f"~{self.text(args[0], _UNARY)}", _UNARY, outer)
        if name == "type_annotation":
            return f'T.type_annotation("{term.dtype}")'
        if name == "tvm_call_packed":
            return f"T.call_packed({self.list(args)})"
        if name in _TYPED:
            return f'T.{name}("{term.dtype}", {self.list(args)})'
        if name in INTRINSICS:
            return self._intrinsic(term)
        if name in functions.__all__ and name != "abs":
            return f"T.{name}({self.list(args)})"
        if name == "fabs":
            return f"T.abs({self.list(args)})"
        listed = ", ".join(['"' + term.dtype + '"', f'"{name}"', *map(self.text, args)])
        return f"T.call_intrin({listed})"

    def _intrinsic(self, term: prim.Call) -> str:
        parts = list(map(self.text, term.args))
        try:
            usual = INTRINSICS[term.op_name](*term.args).dtype
        except (TypeError, ValueError):
            usual = ""
        if usual != term.dtype:
            parts.append(f'dtype="{term.dtype}"')
        return f"T.{term.op_name}({', '.join(parts)})"

    def region(self, region: BufferRegion) -> str:
        """A box of a buffer."""
        inner = ", ".join(map(self._run, region.region))
        return f"{self._name(region.buffer)}[{inner or '()'}]"

    def _run(self, run: Range) -> str:
        if isinstance(run.extent, IntImm) and run.extent.value == 1:
            return self.text(run.min)
        return f"{self.text(run.min)}:{self.text(simplify(run.min + run.extent))}"

    def buffer_options(self, buffer: Buffer) -> list[str]:
        """What is unusual of a buffer, as named arguments."""
        found = []
        if buffer.strides:
            found.append(f"strides={self.tuple(buffer.strides)}")
        offset = buffer.elem_offset
        if not buffer.has_own_offset and _number_of(offset) != 0:
            found.append(f"elem_offset={self.text(offset)}")
        if buffer.scope() != "global":
            found.append(f'scope="{buffer.scope()}"')
        if buffer.data_alignment != 64:
            found.append(f"align={buffer.data_alignment}")
        if buffer.has_own_offset or buffer.offset_factor != 1:
            found.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type != 1:
            found.append('buffer_type="auto_broadcast"')
        if buffer.axis_separators:
            found.append(f"axis_separators={list(buffer.axis_separators)}")
        return found


def _number_of(term: prim.PrimExpr) -> int | None:
    return term.value if isinstance(term, IntImm) else None


def _enclosed(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text


def _number(term: IntImm | prim.FloatImm, outer: int) -> str:
    if isinstance(term, prim.FloatImm):
        value = term.value
        if term.dtype == "float32":  # as short as still tells it from its neighbours
            value = float(str(np.float32(value)))
        text = repr(value) if math.isfinite(value) else f'"{value}"'
        return f"T.{term.dtype}({text})"
    if term.dtype == "bool":
        return f"T.bool({bool(term.value)})"
    if term.dtype != "int32":
        return f"T.{term.dtype}({term.value})"
    return _enclosed(str(term.value), _UNARY if term.value < 0 else 99, outer)
