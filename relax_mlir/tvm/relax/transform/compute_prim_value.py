"""``ComputePrimValue``: outlines scalar arithmetic as tensor programs on the host."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, PrimValue
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_symbols import defined_symbolic_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import Evaluate
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import mutate_functions

__all__ = ["ComputePrimValue"]


@dataclass(frozen=True)
class ComputePrimValue(Pass):
    """Outlines every scalar computed from symbolic sizes as a PrimFunc, and calls it."""

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _ScalarOutliner(module))


class _ScalarOutliner(PyExprMutator):
    def visit_function_(self, op: Function) -> Expr:
        """Visits a function; programs take its symbols in definition order."""
        self.order = [id(symbol) for symbol in defined_symbolic_vars(op)]
        return super().visit_function_(op)

    def visit_prim_value_(self, op: PrimValue) -> Expr:
        """Replaces a scalar that is neither constant nor a symbol by a call."""
        value = op.value
        if isinstance(value, (prim.IntImm, prim.FloatImm, Var)):
            return op
        subexpressions = prim.post_order(value)
        symbols_by_id = {id(t): t for t in subexpressions if isinstance(t, Var)}
        rank = {symbol: number for number, symbol in enumerate(self.order)}
        symbols = sorted(
            symbols_by_id.values(), key=lambda s: rank.get(id(s), len(rank))
        )
        callee = self.builder_.add_func(
            _program(symbols, value), "compute_symbolic_expr"
        )
        return Call(callee, [PrimValue(symbol) for symbol in symbols])


def _program(symbols: list[Var], value: PrimExpr) -> PrimFunc:
    """Returns a program that returns ``value`` as a function of its symbols."""
    params = {symbol: Var(symbol.name, symbol.dtype) for symbol in symbols}
    result = prim.substitute(value, params)
    body = Evaluate(prim.Call(result.dtype, "ret", [result]))
    attrs = {"tir.is_host_func": True}
    return PrimFunc(list(params.values()), body, result.dtype, attrs=attrs)
