"""The variables of sizes: which are defined, which are used, which may be negative."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, MatchCast, ShapeExpr, Var
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.expr_functor import PyExprVisitor

__all__ = [
    "collect_non_negative_expressions",
    "definable_tir_vars_in_struct_info",
    "defined_symbolic_vars",
    "free_symbolic_vars",
    "tir_vars_in_struct_info",
]


def _terms(info: StructInfo | None) -> Iterator[PrimExpr]:
    """The sizes and scalars that struct info mentions, in order."""
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        yield from info.shape
    elif isinstance(info, ShapeStructInfo):
        yield from info.values or ()
    elif isinstance(info, PrimStructInfo) and info.value is not None:
        yield info.value
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _terms(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from _terms(part)


def _variables(terms: Iterable[PrimExpr]) -> Iterator[prim.Var]:
    for term in terms:
        yield from (t for t in prim.post_order(term) if isinstance(t, prim.Var))


def tir_vars_in_struct_info(sinfo: StructInfo) -> list[prim.Var]:
    """The variables that struct info mentions, each once."""
    return _unique(_variables(_terms(sinfo)))


def definable_tir_vars_in_struct_info(sinfo: StructInfo) -> list[prim.Var]:
    """The variables that a value with this struct info defines: those that stand alone."""
    return _unique(_definable(sinfo))


def _definable(info: StructInfo | None) -> Iterator[prim.Var]:
    if isinstance(info, FuncStructInfo):
        for param in info.params or ():
            yield from _definable(param)
    else:
        yield from (t for t in _terms(info) if isinstance(t, prim.Var))


def _unique(variables: Iterable[prim.Var]) -> list[prim.Var]:
    return list({id(var): var for var in variables}.values())


class _Symbols(PyExprVisitor):
    """Collects the variables of sizes that one function defines and uses."""

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
    """The variables of sizes that parameters and casts of a function define."""
    return _unique(_symbols(func).defined.values())


def free_symbolic_vars(func: Expr) -> list[prim.Var]:
    """The variables of sizes that a function or expression uses and does not define."""
    found = _symbols(func)
    return [var for key, var in found.used.items() if key not in found.defined]


def _symbols(func: Expr) -> _Symbols:
    visitor = _Symbols()
    visitor.visit_expr(func)
    return visitor


def collect_non_negative_expressions(sinfo: StructInfo) -> list[PrimExpr]:
    """The sizes that struct info mentions and that are no numbers, each once.

    Sizes are not negative; scalars may be.
    """
    found: list[PrimExpr] = []
    for size in _sizes(sinfo):
        known = isinstance(size, prim.IntImm)
        if not known and not any(prim.structurally_equal(size, f) for f in found):
            found.append(size)
    return found


def _sizes(info: StructInfo) -> Iterator[PrimExpr]:
    if isinstance(info, (TensorStructInfo, ShapeStructInfo)):
        yield from _terms(info)
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _sizes(field)
    elif isinstance(info, FuncStructInfo):
        for part in (*(info.params or ()), info.ret):
            yield from _sizes(part)
