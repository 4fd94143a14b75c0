"""Which calls do more than compute their result, and which functions call themselves."""

from __future__ import annotations

from relax_mlir.call_graph import CallGraph
from relax_mlir.module import IRModule
from relax_mlir.objects.effects import effects_of_operator
from relax_mlir.objects.expr import (
    Call,
    Expr,
    GlobalVar,
    Op,
    Var,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import FuncStructInfo
from relax_mlir.relax.expr_functor import PyExprVisitor

__all__ = ["contains_impure_call", "detect_recursion", "is_impure_call"]


def is_impure_call(call: Call) -> bool:
    """Whether a call may do more than compute its result.

    Raises:
        ValueError: nothing is known of what it calls.
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
        """An inner function does nothing until it is called."""

    def visit_call_(self, op: Call) -> None:
        is_recursive = self.own_name is not None and op.op == self.own_name
        if not is_recursive and is_impure_call(op):
            self.found = True
        super().visit_call_(op)


def contains_impure_call(expr: Expr, own_name: Var | GlobalVar | None = None) -> bool:
    """Whether an expression may do more than compute its value.

    Args:
        expr: of a function, the body counts.
        own_name: calls of this one are not counted, as in a recursive function.
    """
    visitor = _ImpureCalls(own_name)
    visitor.visit_expr(expr.body if isinstance(expr, Function) else expr)
    return visitor.found


def detect_recursion(mod: IRModule) -> list[list[GlobalVar]]:
    """The groups of functions that mention each other in a circle.

    A function that mentions only itself is a group of its own.
    """
    cycles = CallGraph(mod).cycles()
    return [[mod.get_global_var(name) for name in cycle] for cycle in cycles]
