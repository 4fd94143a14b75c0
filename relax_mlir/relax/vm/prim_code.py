"""Scalar expressions as instructions of host functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relax_mlir.errors import UnsupportedError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.relax.vm.host_builder import FunctionBuilder, OpenBlock, Register

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
    """Emit instructions for a scalar expression; return the register of its value.

    What a choice does not choose is not computed.

    Args:
        builder: of the function.
        expr: the expression.
        register_of: where the value of a variable is.

    Raises:
        UnsupportedError: it has no meaning outside of a tensor program.
    """

    return _Scalars(builder, register_of).emit(expr)


@dataclass(frozen=True)
class _Scalars:
    """Emits scalar expressions; see :func:`emit_scalar`."""

    builder: FunctionBuilder
    register_of: Callable[[Var], Register]

    def emit(self, term: PrimExpr) -> Register:
        if isinstance(term, Var):
            return self.register_of(term)
        if isinstance(term, (prim.IntImm, prim.FloatImm)):
            is_bool = term.dtype == "bool"
            return self.builder.literal(bool(term.value) if is_bool else term.value)
        if isinstance(term, prim.Cast):
            return self.builder.emit("cast", [self.emit(term.value)], [term.dtype])
        if isinstance(term, prim.Not):
            return self.builder.emit("not", [self.emit(term.a)])
        if type(term) in _BINARY or _is_simple_call(term):
            operands = list(map(self.emit, term.children()))
            return self.builder.emit(_opcode(term), operands)
        return self._choice(term)

    def _choice(self, term: PrimExpr) -> Register:
        if isinstance(term, prim.And):
            return self._choose(term.a, term.b, prim.const(False, "bool"))
        if isinstance(term, prim.Or):
            return self._choose(term.a, prim.const(True, "bool"), term.b)
        if isinstance(term, prim.Select):
            return self._choose(term.condition, term.true_value, term.false_value)
        if isinstance(term, prim.Call) and term.op_name == "if_then_else":
            return self._choose(*term.args)
        raise UnsupportedError(f"size `{term}`: expected arithmetic on integers")

    def _choose(self, condition: PrimExpr, *branches: PrimExpr) -> Register:
        value = self.emit(condition)
        blocks = list(map(self._block, branches))
        return self.builder.emit("if", [value], blocks=blocks)

    def _block(self, term: PrimExpr) -> OpenBlock:
        with self.builder.block() as made:
            made.result = self.emit(term)
        return made


def _is_simple_call(term: PrimExpr) -> bool:
    return isinstance(term, prim.Call) and term.op_name in _CALLS


def _opcode(term: PrimExpr) -> str:
    return term.op_name if isinstance(term, prim.Call) else _BINARY[type(term)]
