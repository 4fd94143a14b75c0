"""Printing of TIR scalar expressions, buffer accesses and regions."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, Range, Var, intrinsics
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.prim.script_text import prim_expr_script
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion
from relax_mlir.tvm.script.printer.pointers import Highlights, mark_underlined
from relax_mlir.tvm.script.tir_calls import INTRINSICS

__all__ = ["PrimExprPrinter"]

# Precedence of Python's operators.
_OR, _AND, _NOT, _COMPARE, _SHIFT, _ADD, _MULTIPLY, _UNARY = 2, 3, 4, 5, 9, 10, 11, 12
_OPERATORS: Mapping[type, tuple[str, int]] = {
    prim.Add: ("+", _ADD),
    prim.Sub: ("-", _ADD),
    prim.Mul: ("*", _MULTIPLY),
    prim.FloorDiv: ("//", _MULTIPLY),
    prim.FloorMod: ("%", _MULTIPLY),
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
_IMMEDIATES = (IntImm, prim.FloatImm)
# Intrinsics that are printed with their dtype as the first argument.
_WITH_DTYPE = frozenset(
    {
        *("call_extern", "call_pure_extern", "call_llvm_intrin"),
        *("call_llvm_pure_intrin", "reinterpret"),
    }
)


class PrimExprPrinter:
    """Prints scalar expressions.

    Args:
        name: returns the name of a variable or buffer.
        module_name: the name of the module.
        highlights: nodes to underline.
    """

    def __init__(
        self,
        name: Callable[[Any], str],
        module_name: str = "Module",
        highlights: Highlights | None = None,
    ) -> None:
        self._name = name
        self.module_name = module_name
        self.highlights = highlights or Highlights()
        # Memo of _reparsed: id of an expression -> the expression (kept alive, so that
        # the id stays unique) and its result.
        self._memo: dict[int, tuple[prim.PrimExpr, prim.PrimExpr]] = {}

    def text(self, expr: Any, outer: int = 0) -> str:
        """Prints an expression, in parentheses if its precedence is below ``outer``."""
        text = self._text(expr, outer)
        return mark_underlined(text) if self.highlights.has(expr) else text

    def _text(self, expr: Any, outer: int) -> str:
        if isinstance(expr, Pointer) and expr.buffer is not None:
            return f"{self._name(expr.buffer)}.data"
        if isinstance(expr, Var):
            return self._name(expr)
        if isinstance(expr, (IntImm, prim.FloatImm)):
            return _number(expr, outer)
        if isinstance(expr, prim.StringImm):
            return json.dumps(expr.value, ensure_ascii=False)
        if isinstance(expr, BufferLoad):
            return self._load(expr)
        if isinstance(expr, prim.Call):
            return self._call(expr, outer)
        return self._operation(expr, outer)

    def list(self, exprs: Any) -> str:
        """Prints expressions separated by commas."""
        return ", ".join(map(self.text, exprs))

    def tuple(self, exprs: Any) -> str:
        """Prints expressions as a tuple."""
        listed = list(exprs)
        return f"({self.list(listed)}{',' if len(listed) == 1 else ''})"

    def _operation(self, expr: Any, outer: int) -> str:
        if isinstance(expr, prim.BinaryExpr) and self._folds(expr):
            return f"T.{type(expr).__name__}({self.list(expr.children())})"
        if isinstance(expr, prim.Div) and not expr.is_integer:
            return self._infix("/", _MULTIPLY, expr.a, expr.b, outer)
        if type(expr) in _OPERATORS:
            return self._infix(*_OPERATORS[type(expr)], expr.a, expr.b, outer)
        if isinstance(expr, prim.Not):
            return _parenthesized(f"not {self.text(expr.a, _NOT)}", _NOT, outer)
        if isinstance(expr, prim.Cast):
            return f'T.Cast("{expr.dtype}", {self.text(expr.value)})'
        if isinstance(expr, (prim.Ramp, prim.Broadcast)):
            parts = [*expr.children(), expr.lanes]
            return f"T.{type(expr).__name__}({self.list(parts)})"
        if isinstance(expr, prim.Shuffle):
            return (
                f"T.Shuffle([{self.list(expr.vectors)}], [{self.list(expr.indices)}])"
            )
        if isinstance(expr, prim.Let):
            where = f"{{{self.text(expr.var)}: {self.text(expr.value)}}}"
            return f"T.Let({self.text(expr.body)}, where={where})"
        name = _FUNCTIONS.get(type(expr))
        if name is None:
            return prim_expr_script(expr)
        return f"T.{name}({self.list(expr.children())})"

    def _folds(self, expr: prim.BinaryExpr) -> bool:
        """Whether the parser would constant-fold the operator, so infix does not round-trip."""
        if isinstance(expr, (prim.And, prim.Or)):
            return False
        try:
            parsed = prim.binary(type(expr), *map(self._reparsed, expr.children()))
        except ZeroDivisionError:
            return True
        return type(parsed) is not type(expr)

    def _reparsed(self, expr: prim.PrimExpr) -> prim.PrimExpr:
        """Returns the parser's result for the printed expression, with constants folded."""
        entry = self._memo.get(id(expr))
        if entry is None:
            entry = self._memo[id(expr)] = (expr, self._folded(expr))
        return entry[1]

    def _folded(self, expr: prim.PrimExpr) -> prim.PrimExpr:
        if not isinstance(expr, (prim.BinaryExpr, prim.Call)):
            return expr
        children = list(map(self._reparsed, expr.children()))
        if isinstance(expr, prim.BinaryExpr):
            is_unchanged = all(map(operator.is_, children, expr.children()))
            return expr if is_unchanged else type(expr)(*children)
        if not children or not all(isinstance(c, _IMMEDIATES) for c in children):
            return expr
        function = getattr(intrinsics, expr.op_name, None)
        if function is None or expr.op_name not in intrinsics.__all__:
            return expr
        try:
            folded = function(*children)
        except (TypeError, ValueError):
            return expr
        return folded if isinstance(folded, _IMMEDIATES) else expr

    def _load(self, expr: BufferLoad) -> str:
        if expr.predicate is None:
            return self.element(expr.buffer, expr.indices)
        name, indices = self._name(expr.buffer), self.list(expr.indices)
        return f"{name}.vload([{indices}], predicate={self.text(expr.predicate)})"

    def element(self, buffer: Buffer, indices: Sequence[Any]) -> str:
        """Prints the access of a buffer element, or of a vector of elements."""
        listed = ", ".join(map(self._index, indices))
        return f"{self._name(buffer)}[{listed or '()'}]"

    def _index(self, index: Any) -> str:
        """Prints an index; a ramp of positive constant stride as a slice."""
        stride = _constant_value(index.stride) if isinstance(index, prim.Ramp) else None
        if stride is None or stride < 1 or self.highlights.has(index):
            return self.text(index)
        stop = simplify(index.base + index.lanes * stride)
        step = "" if stride == 1 else f":{stride}"
        return f"{self.text(index.base)}:{self.text(stop)}{step}"

    def _infix(self, symbol: str, precedence: int, a: Any, b: Any, outer: int) -> str:
        # Parenthesize nested comparisons: Python would chain them.
        left = self.text(a, precedence + (precedence == _COMPARE))
        right = self.text(b, precedence + 1)
        return _parenthesized(f"{left} {symbol} {right}", precedence, outer)

    def _call(self, expr: prim.Call, outer: int) -> str:
        name, args = expr.op_name, expr.args
        if expr.is_subroutine:
            return f"{self.module_name}.{name}({self.list(args)})"
        if name in _BITWISE and len(args) == 2:
            return self._infix(*_BITWISE[name], *args, outer)
        if name == "bitwise_not":
            return _parenthesized(f"~{self.text(args[0], _UNARY)}", _UNARY, outer)
        if name == "type_annotation":
            return f'T.type_annotation("{expr.dtype}")'
        if name == "tvm_call_packed":
            return f"T.call_packed({self.list(args)})"
        if name in _WITH_DTYPE:
            return f'T.{name}("{expr.dtype}", {self.list(args)})'
        if name in INTRINSICS:
            return self._intrinsic(expr)
        if name in intrinsics.__all__ and name != "abs":
            return f"T.{name}({self.list(args)})"
        if name == "fabs":
            return f"T.abs({self.list(args)})"
        listed = ", ".join(['"' + expr.dtype + '"', f'"{name}"', *map(self.text, args)])
        return f"T.call_intrin({listed})"

    def _intrinsic(self, expr: prim.Call) -> str:
        parts = list(map(self.text, expr.args))
        try:
            default_dtype = INTRINSICS[expr.op_name](*expr.args).dtype
        except (TypeError, ValueError):
            default_dtype = ""
        if default_dtype != expr.dtype:
            parts.append(f'dtype="{expr.dtype}"')
        return f"T.{expr.op_name}({', '.join(parts)})"

    def region(self, region: BufferRegion) -> str:
        """Prints a region of a buffer."""
        inner = ", ".join(map(self._range, region.region))
        return f"{self._name(region.buffer)}[{inner or '()'}]"

    def _range(self, range_: Range) -> str:
        if isinstance(range_.extent, IntImm) and range_.extent.value == 1:
            return self.text(range_.min)
        stop = simplify(range_.min + range_.extent)
        return f"{self.text(range_.min)}:{self.text(stop)}"

    def buffer_options(self, buffer: Buffer) -> list[str]:
        """Prints the non-default properties of a buffer as keyword arguments."""
        options = []
        if buffer.strides:
            options.append(f"strides={self.tuple(buffer.strides)}")
        offset = buffer.elem_offset
        if not buffer.has_own_offset and _constant_value(offset) != 0:
            options.append(f"elem_offset={self.text(offset)}")
        if buffer.scope() != "global":
            options.append(f'scope="{buffer.scope()}"')
        if buffer.data_alignment != 64:
            options.append(f"align={buffer.data_alignment}")
        if buffer.has_own_offset or buffer.offset_factor != 1:
            options.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type != 1:
            options.append('buffer_type="auto_broadcast"')
        if buffer.axis_separators:
            options.append(f"axis_separators={list(buffer.axis_separators)}")
        return options


def _constant_value(expr: prim.PrimExpr) -> int | None:
    return expr.value if isinstance(expr, IntImm) else None


def _parenthesized(text: str, precedence: int, outer: int) -> str:
    return f"({text})" if precedence < outer else text


def _number(expr: IntImm | prim.FloatImm, outer: int) -> str:
    if isinstance(expr, prim.FloatImm):
        value = expr.value
        if expr.dtype == "float32":  # the shortest text that round-trips
            value = float(str(np.float32(value)))
        text = repr(value) if math.isfinite(value) else f'"{value}"'
        return f"T.{expr.dtype}({text})"
    if expr.dtype == "bool":
        return f"T.bool({bool(expr.value)})"
    if expr.dtype != "int32":
        return f"T.{expr.dtype}({expr.value})"
    return _parenthesized(str(expr.value), _UNARY if expr.value < 0 else 99, outer)
