"""Purity of calls and expressions, and recursion of functions."""

from __future__ import annotations

from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.effects import effects_of_operator
from relax_mlir.objects.expr import (
    Call,
    Expr,
    GlobalVar,
    Op,
    Var,
)
from relax_mlir.objects.expr.struct_info import FuncStructInfo
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.function import Function

__all__ = ["contains_impure_call", "detect_recursion", "is_impure_call"]


def is_impure_call(call: Call) -> bool:
    """Whether a call may have side effects.

    Raises:
        ValueError: the callee has no struct info.
    """
    if isinstance(call.op, Op):
        return not effects_of_operator(call.op.name).is_pure
    info = call.op.struct_info_or_none()
    if not isinstance(info, FuncStructInfo):
        raise ValueError(
            f"`{call!r}`: expected a callee whose struct info is that of a function, "
            f"got {info}"
        )
    return not info.purity


class _ImpureCalls(PyExprVisitor):
    def __init__(self, own_name: Expr | None) -> None:
        self.own_name = own_name
        self.found = False

    def visit_function_(self, op: Function) -> None:
        """Skips local functions, which have no effect until they are called."""

    def visit_call_(self, op: Call) -> None:
        is_recursive = self.own_name is not None and op.op == self.own_name
        if not is_recursive and is_impure_call(op):
            self.found = True
        super().visit_call_(op)


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """Whether an expression may have side effects.

    Args:
        expr: the expression; of a function, its body.
        own_name: calls of this function are ignored, for recursive functions.
    """
    visitor = _ImpureCalls(own_name)
    visitor.visit_expr(expr.body if isinstance(expr, Function) else expr)
    return visitor.found


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The strongly connected components of the call graph, by mutual reference.

    A function that refers to itself alone is a component of one.
    """
    cycles = CallGraph(mod).cycles()
    return [[mod.get_global_var(name) for name in cycle] for cycle in cycles]
