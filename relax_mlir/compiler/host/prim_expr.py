"""Lowering of scalar expressions to instructions of host functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relax_mlir.compiler.host.builder import BlockDraft, FunctionBuilder, Register
from relax_mlir.errors import UnsupportedError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = ["emit_scalar"]

_BINARY: Mapping[type[PrimExpr], str] = {
    prim.Add: "add",
    prim.Sub: "subtract",
    prim.Mul: "multiply",
    prim.Div: "truncdiv",
    prim.Mod: "truncmod",
    prim.FloorDiv: "floordiv",
    prim.FloorMod: "floormod",
    prim.Min: "minimum",
    prim.Max: "maximum",
    prim.EQ: "equal",
    prim.NE: "not_equal",
    prim.LT: "less",
    prim.LE: "less_equal",
    prim.GT: "greater",
    prim.GE: "greater_equal",
}
_CALLS = frozenset(
    ("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor", "abs")
)


def emit_scalar(
    builder: FunctionBuilder, expr: PrimExpr, register_of: Callable[[Var], Register]
) -> Register:
    """Emit instructions for a scalar expression; returns the register of its value.

    Conditional expressions evaluate only the selected branch.

    Args:
        builder: of the function.
        expr: the expression.
        register_of: the register of a variable.

    Raises:
        UnsupportedError: the expression is valid only inside a PrimFunc.
    """

    return _ScalarWriter(builder, register_of).emit(expr)


@dataclass(frozen=True)
class _ScalarWriter:
    """Emits scalar expressions; see :func:`emit_scalar`."""

    builder: FunctionBuilder
    register_of: Callable[[Var], Register]

    def emit(self, expr: PrimExpr) -> Register:
        if isinstance(expr, Var):
            return self.register_of(expr)
        if isinstance(expr, (prim.IntImm, prim.FloatImm)):
            is_bool = expr.dtype == "bool"
            return self.builder.literal(bool(expr.value) if is_bool else expr.value)
        if isinstance(expr, prim.Cast):
            return self.builder.emit("cast", [self.emit(expr.value)], [expr.dtype])
        if isinstance(expr, prim.Not):
            return self.builder.emit("not", [self.emit(expr.a)])
        if type(expr) in _BINARY or _is_simple_call(expr):
            operands = list(map(self.emit, expr.children()))
            return self.builder.emit(_opcode(expr), operands)
        return self._conditional(expr)

    def _conditional(self, expr: PrimExpr) -> Register:
        if isinstance(expr, prim.And):
            return self._if(expr.a, expr.b, prim.const(False, "bool"))
        if isinstance(expr, prim.Or):
            return self._if(expr.a, prim.const(True, "bool"), expr.b)
        if isinstance(expr, prim.Select):
            return self._if(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, prim.Call) and expr.op_name == "if_then_else":
            return self._if(*expr.args)
        raise UnsupportedError(f"size `{expr}`: expected integer arithmetic")

    def _if(self, condition: PrimExpr, *branches: PrimExpr) -> Register:
        value = self.emit(condition)
        blocks = list(map(self._block, branches))
        return self.builder.emit("if", [value], blocks=blocks)

    def _block(self, expr: PrimExpr) -> BlockDraft:
        with self.builder.block() as block:
            block.result = self.emit(expr)
        return block


def _is_simple_call(expr: PrimExpr) -> bool:
    return isinstance(expr, prim.Call) and expr.op_name in _CALLS


def _opcode(expr: PrimExpr) -> str:
    return expr.op_name if isinstance(expr, prim.Call) else _BINARY[type(expr)]
