"""``ComputePrimValue``: scalars are computed by programs of their own."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, PrimValue
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt import Evaluate
from relax_mlir.relax.analysis.symbols import defined_symbolic_vars
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import mutate_functions
from relax_mlir.rewriting import Pass

__all__ = ["ComputePrimValue"]


@dataclass(frozen=True)
class ComputePrimValue(Pass):
    """Call a program for every scalar that has to be computed from symbols."""

    def run(self, module: IRModule) -> None:
        mutate_functions(module, _Lifting(module))


class _Lifting(PyExprMutator):
    def visit_function_(self, op: Function) -> Expr:
        """A function; programs take its symbols in the order in which it defines them."""
        self.order = [id(symbol) for symbol in defined_symbolic_vars(op)]
        return super().visit_function_(op)

    def visit_prim_value_(self, op: PrimValue) -> Expr:
        """A scalar: the call of a program, if it is neither known nor a symbol."""
        value = op.value
        if isinstance(value, (prim.IntImm, prim.FloatImm, Var)):
            return op
        terms = prim.post_order(value)
        found = {id(t): t for t in terms if isinstance(t, Var)}
        rank = {symbol: number for number, symbol in enumerate(self.order)}
        symbols = sorted(found.values(), key=lambda s: rank.get(id(s), len(rank)))
        callee = self.builder_.add_func(
            _program(symbols, value), "compute_symbolic_expr"
        )
        return Call(callee, [PrimValue(symbol) for symbol in symbols])


def _program(symbols: list[Var], value: PrimExpr) -> PrimFunc:
    """A program that returns ``value``, given its symbols."""
    params = {symbol: Var(symbol.name, symbol.dtype) for symbol in symbols}
    result = prim.substitute(value, params)
    body = Evaluate(prim.Call(result.dtype, "ret", [result]))
    attrs = {"tir.is_host_func": True}
    return PrimFunc(list(params.values()), body, result.dtype, attrs=attrs)
