"""Analysis of the bindings that depend on weights alone, not on inputs."""

from __future__ import annotations

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Binding, Id, MatchCast, Var
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.free_symbols import definable_tir_vars_in_struct_info
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.purity import contains_impure_call

__all__ = ["computable_at_compile_time"]


def computable_at_compile_time(func: Function) -> list[Var]:
    """Variables computable at compile time: weights, and values computed from them.

    Weights are the parameters after the first ``num_input``; a function without this
    attribute has none.
    """
    if "num_input" not in func.attrs:
        return []
    known = _KnownVars()
    for param in func.params[int(func.attrs["num_input"]) :]:
        known.add(param, param.struct_info_or_none())
    for block in func.body.blocks:
        for binding in block.bindings:
            if known.can_compute(binding):
                is_cast = isinstance(binding, MatchCast)
                info = binding.struct_info if is_cast else None
                known.add(binding.var, info)
    return known.vars


class _KnownVars:
    """Relax and symbolic variables that are known at compile time."""

    def __init__(self) -> None:
        self.vars: list[Var] = []
        self._ids: set[Id] = set()
        self._symbols: set[int] = set()

    def add(self, var: Var, defining: StructInfo | None) -> None:
        """Add a variable, and the symbolic variables that ``defining`` defines."""
        self.vars.append(var)
        self._ids.add(var.vid)
        if defining is not None:
            self._symbols |= set(map(id, definable_tir_vars_in_struct_info(defining)))

    def can_compute(self, binding: Binding) -> bool:
        """Whether a binding is pure and uses only known variables."""
        if contains_impure_call(binding.value):
            return False
        used = _UsedVars()
        used.visit_expr(binding.value)
        return used.ids <= self._ids and used.symbols <= self._symbols


class _UsedVars(PyExprVisitor):
    """Collects the Relax and symbolic variables that an expression uses."""

    def __init__(self) -> None:
        self.ids: set[Id] = set()
        self.symbols: set[int] = set()

    def visit_var_(self, op: Var) -> None:
        self.ids.add(op.vid)

    visit_dataflow_var_ = visit_var_

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        nodes = prim.post_order(expr)
        self.symbols |= {id(node) for node in nodes if isinstance(node, prim.Var)}
