"""What can be computed before the inputs are known."""

from __future__ import annotations

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Binding, Id, MatchCast, Var
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.relax.analysis.purity import contains_impure_call
from relax_mlir.relax.analysis.symbols import definable_tir_vars_in_struct_info
from relax_mlir.relax.expr_functor import PyExprVisitor

__all__ = ["computable_at_compile_time"]


def computable_at_compile_time(func: Function) -> list[Var]:
    """The parameters after the first ``num_input``, and the variables that need no others.

    A function without the attribute ``num_input`` has none.
    """
    if "num_input" not in func.attrs:
        return []
    known = _Known()
    for param in func.params[int(func.attrs["num_input"]) :]:
        known.add(param, param.struct_info_or_none())
    for block in func.body.blocks:
        for binding in block.bindings:
            if known.tells(binding):
                is_cast = isinstance(binding, MatchCast)
                info = binding.struct_info if is_cast else None
                known.add(binding.var, info)
    return known.vars


class _Known:
    """Variables of which the values are known."""

    def __init__(self) -> None:
        self.vars: list[Var] = []
        self._ids: set[Id] = set()
        self._symbols: set[int] = set()

    def add(self, var: Var, defining: StructInfo | None) -> None:
        """``var`` is known, and so are the sizes that ``defining`` gives names to."""
        self.vars.append(var)
        self._ids.add(var.vid)
        if defining is not None:
            self._symbols |= set(map(id, definable_tir_vars_in_struct_info(defining)))

    def tells(self, binding: Binding) -> bool:
        """Whether what is known tells the value of a binding."""
        if contains_impure_call(binding.value):
            return False
        needs = _Needs()
        needs.visit_expr(binding.value)
        return needs.ids <= self._ids and needs.symbols <= self._symbols


class _Needs(PyExprVisitor):
    """Collects the variables of both kinds that an expression mentions."""

    def __init__(self) -> None:
        self.ids: set[Id] = set()
        self.symbols: set[int] = set()

    def visit_var_(self, op: Var) -> None:
        self.ids.add(op.vid)

    visit_dataflow_var_ = visit_var_

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        terms = prim.post_order(expr)
        self.symbols |= {id(term) for term in terms if isinstance(term, prim.Var)}
