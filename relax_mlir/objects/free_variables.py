"""Variable analyses of Relax expressions: bound, free, all, use-def chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import (
    Binding,
    Call,
    DataflowBlock,
    Expr,
    GlobalVar,
    Id,
    MatchCast,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.function import Function

__all__ = [
    "all_global_vars",
    "all_vars",
    "bound_vars",
    "called_global_vars",
    "free_vars",
    "get_var2val",
    "name_to_binding",
    "post_order_visit",
    "udchain",
    "used_vars",
]


class _Variables(PyExprVisitor):
    """Collects variables in order of first occurrence."""

    def __init__(self) -> None:
        self.defined: dict[Id, Var] = {}
        self.used: dict[Id, Var] = {}
        self.met: dict[Id, Var] = {}
        self.functions: dict[str, GlobalVar] = {}

    def visit_var_(self, op: Var) -> None:
        self.used.setdefault(op.vid, op)
        self.met.setdefault(op.vid, op)

    visit_dataflow_var_ = visit_var_

    def visit_var_def_(self, var: Var) -> None:
        self.defined.setdefault(var.vid, var)
        self.met.setdefault(var.vid, var)

    def visit_global_var_(self, op: GlobalVar) -> None:
        self.functions.setdefault(op.name_hint, op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self.visit_var_def(binding.var)
        self.visit_expr(binding.value)


def _variables(expr: Expr) -> _Variables:
    found = _Variables()
    found.visit_expr(expr)
    return found


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that an expression binds, including parameters of functions."""
    return list(_variables(expr).defined.values())


def free_vars(expr: Expr) -> list[Var]:
    """The variables that an expression uses and does not bind."""
    found = _variables(expr)
    return [var for vid, var in found.used.items() if vid not in found.defined]


def all_vars(expr: Expr) -> list[Var]:
    """The variables that an expression binds or uses."""
    return list(_variables(expr).met.values())


def used_vars(expr: Expr) -> list[Var]:
    """The variables that an expression uses."""
    return list(_variables(expr).used.values())


def all_global_vars(expr: Expr) -> list[GlobalVar]:
    """The global variables in an expression."""
    return list(_variables(expr).functions.values())


class _Callees(PyExprVisitor):
    def __init__(self) -> None:
        self.found: dict[str, GlobalVar] = {}

    def visit_call_(self, op: Call) -> None:
        if isinstance(op.op, GlobalVar):
            self.found.setdefault(op.op.name_hint, op.op)
        super().visit_call_(op)


def called_global_vars(expr: Expr) -> list[GlobalVar]:
    """The global variables that an expression calls."""
    visitor = _Callees()
    visitor.visit_expr(expr)
    return list(visitor.found.values())


def udchain(dfb: DataflowBlock) -> dict[Var, list[Var]]:
    """The use-def chain of a dataflow block: the users of each variable."""
    users: dict[Var, list[Var]] = {}
    for binding in dfb.bindings:
        bound = instance_of(binding, (VarBinding, MatchCast), "udchain", "a binding")
        for var in used_vars(bound.value):
            listed = users.setdefault(var, [])
            if binding.var not in listed:
                listed.append(binding.var)
        users.setdefault(binding.var, [])
    return users


class _Bindings(PyExprVisitor):
    def __init__(self) -> None:
        self.found: list[Binding] = []

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self.found.append(binding)
        super().visit_var_binding_(binding)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.found.append(binding)
        super().visit_match_cast_(binding)


def _bindings(where: Expr | DataflowBlock | IRModule) -> list[Binding]:
    visitor = _Bindings()
    if isinstance(where, IRModule):
        for function in where.functions.values():
            if isinstance(function, Function):
                visitor.visit_expr(function)
    elif isinstance(where, Expr):
        visitor.visit_expr(where)
    else:
        visitor.visit_binding_block(where)
    return visitor.found


def get_var2val(func: Function | DataflowBlock | IRModule) -> dict[Var, Expr]:
    """The value of each bound variable, without match casts."""
    return {b.var: b.value for b in _bindings(func) if isinstance(b, VarBinding)}


def name_to_binding(func: Function) -> dict[str, list[Binding]]:
    """The bindings, by the names of their variables."""
    found: dict[str, list[Binding]] = {}
    for binding in _bindings(func):
        found.setdefault(binding.var.name_hint, []).append(binding)
    return found


class _PostOrder(PyExprVisitor):
    def __init__(self, visit: Callable[[Expr], Any]) -> None:
        self.visit = visit

    def visit_expr(self, expr: Expr) -> None:
        super().visit_expr(expr)
        self.visit(expr)


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Calls ``fvisit`` on all subexpressions in post-order."""
    _PostOrder(fvisit).visit_expr(expr)
