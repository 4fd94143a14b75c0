"""Symbolic-size variables: defined, used, free, and non-negative ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, MatchCast, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr

__all__ = [
    "collect_non_negative_expressions",
    "definable_tir_vars_in_struct_info",
    "defined_symbolic_vars",
    "free_symbolic_vars",
    "tir_vars_in_struct_info",
]


def _exprs(info: StructInfo | None) -> Iterator[PrimExpr]:
    """The sizes and scalars in struct info, in order."""
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        yield from info.shape
    elif isinstance(info, ShapeStructInfo):
        yield from info.values or ()
    elif isinstance(info, PrimStructInfo) and info.value is not None:
        yield info.value
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _exprs(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from _exprs(part)


def _variables(exprs: Iterable[PrimExpr]) -> Iterator[prim.Var]:
    for expr in exprs:
        yield from (t for t in prim.post_order(expr) if isinstance(t, prim.Var))


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[prim.Var]:
    """The variables in struct info, without duplicates."""
    return _unique(_variables(_exprs(sinfo)))


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[prim.Var]:
    """The variables that struct info can define: sizes that are a single variable."""
    return _unique(_definable(sinfo))


def _definable(info: StructInfo | None) -> Iterator[prim.Var]:
    if isinstance(info, FuncStructInfo):
        for param in info.params or ():
            yield from _definable(param)
    else:
        yield from (t for t in _exprs(info) if isinstance(t, prim.Var))


def _unique(variables: Iterable[prim.Var]) -> list[prim.Var]:
    return list({id(var): var for var in variables}.values())


class _Symbols(PyExprVisitor):
    """Collects the size variables that a function defines and uses."""

    def __init__(self) -> None:
        self.defined: dict[int, prim.Var] = {}
        self.used: dict[int, prim.Var] = {}

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        self.used.update((id(var), var) for var in _variables([expr]))

    def _define(self, info: StructInfo | None) -> None:
        self.defined.update((id(var), var) for var in _definable(info))
        self.visit_struct_info(info)

    def visit_function_(self, op: Function) -> None:
        for param in op.params:
            self._define(param.struct_info_or_none())
        self.visit_struct_info(op.ret_struct_info)
        self.visit_expr(op.body)

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.visit_expr(binding.value)
        self._define(binding.struct_info)

    def visit_var_def_(self, var: Var) -> None:
        self.visit_struct_info(var.struct_info_or_none())


def defined_symbolic_vars(func: Function) -> list[prim.Var]:
    """The size variables that a function's parameters and match casts define."""
    return _unique(_symbols(func).defined.values())


def free_symbolic_vars(func: Expr) -> list[prim.Var]:
    """The size variables that a function or expression uses and does not define."""
    found = _symbols(func)
    return [var for key, var in found.used.items() if key not in found.defined]


def _symbols(func: Expr) -> _Symbols:
    visitor = _Symbols()
    visitor.visit_expr(func)
    return visitor


def collect_non_negative_expressions(sinfo: StructInfo) -> list[PrimExpr]:
    """The distinct non-constant sizes in struct info.

    Sizes are non-negative; scalars may be negative.
    """
    found: list[PrimExpr] = []
    for size in _sizes(sinfo):
        known = isinstance(size, prim.IntImm)
        if not known and not any(prim.structurally_equal(size, f) for f in found):
            found.append(size)
    return found


def _sizes(info: StructInfo) -> Iterator[PrimExpr]:
    if isinstance(info, (TensorStructInfo, ShapeStructInfo)):
        yield from _exprs(info)
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _sizes(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from _sizes(part)
