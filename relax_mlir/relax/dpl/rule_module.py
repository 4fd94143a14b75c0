"""Rules that a module spells: the function ``pattern`` becomes ``replacement``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.errors import UnknownNameError
from relax_mlir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    ExternFunc,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.dpl.constrained import PrimArrPattern, StructInfoPattern
from relax_mlir.relax.dpl.rewriters import Rule, rule_for
from relax_mlir.relax.dpl.structure import (
    CallPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)
from relax_mlir.relax.expr_functor import PyExprMutator

__all__ = ["rule_of_module"]


def rule_of_module(mod: IRModule) -> Rule:
    """The rule that a module spells; its other functions come with replacements.

    Raises:
        KeyError: ``pattern`` or ``replacement`` is missing.
        TypeError: one of them is no function of Relax, or holds what is no pattern.
        ValueError: their signatures differ, or another function is public.
    """
    pattern, replacement = _function(mod, "pattern"), _function(mod, "replacement")
    subroutines: dict[str, BaseFunc] = {}
    for var, function in mod.functions.items():
        if var.name_hint in ("pattern", "replacement"):
            continue
        if "global_symbol" in function.attrs:
            raise ValueError(
                f"function `{var.name_hint}` is publicly exposed: expected that only "
                "`pattern` and `replacement` are"
            )
        subroutines[var.name_hint] = function
    mine, theirs = pattern.struct_info, replacement.struct_info
    if not structural_equal(mine, theirs):
        raise ValueError(
            "`pattern` and `replacement` must have the same signature: expected "
            f"{mine}, got {theirs}"
        )
    return _rule(pattern, replacement, subroutines)


def _function(mod: IRModule, name: str) -> Function:
    if name not in mod:
        raise UnknownNameError(f"module has no function `{name}`: a rule needs one")
    function = mod[name]
    if not isinstance(function, Function):
        raise TypeError(f"`{name}`: expected a function of Relax, got a tensor program")
    return function


def _rule(
    pattern: Function, replacement: Function, subroutines: Mapping[str, BaseFunc]
) -> Rule:
    params = [WildcardPattern() for _ in pattern.params]
    known: dict[Var, DFPattern] = {
        param: StructInfoPattern(made, param.struct_info)
        for param, made in zip(pattern.params, params, strict=True)
    }
    body = pattern.body
    for block in body.blocks:
        for binding in block.bindings:
            made = _pattern_of(binding.value, known)
            if isinstance(binding, MatchCast):
                made = StructInfoPattern(made, binding.struct_info)
            known[binding.var] = made

    def rewrite(expr: Expr, matched: dict[DFPattern, Expr]) -> Expr:
        return _instance(replacement, [matched[param] for param in params])

    return rule_for(_pattern_of(body.body, known), rewrite, subroutines)


def _pattern_of(expr: Expr, known: Mapping[Var, DFPattern]) -> DFPattern:
    """The pattern that an expression spells.

    Raises:
        TypeError: it is of a kind that has no pattern.
    """
    if isinstance(expr, Var):
        return known[expr]
    if isinstance(expr, Call):
        args = [_pattern_of(a, known) for a in expr.args]
        return CallPattern(_pattern_of(expr.op, known), args, add_constraint=False)
    if isinstance(expr, Tuple):
        return TuplePattern([_pattern_of(f, known) for f in expr.fields])
    if isinstance(expr, TupleGetItem):
        return TupleGetItemPattern(_pattern_of(expr.tuple_value, known), expr.index)
    if isinstance(expr, Op):
        return ExprPattern(expr)
    if isinstance(expr, ExternFunc):
        return ExternFuncPattern(expr.global_symbol)
    if isinstance(expr, PrimValue):
        return StructInfoPattern(WildcardPattern(), PrimStructInfo(expr.value))
    if isinstance(expr, ShapeExpr):
        return PrimArrPattern(expr.values)
    raise TypeError(f"`pattern`: a `{type(expr).__name__}` is no pattern: `{expr!r}`")


def _instance(function: Function, arguments: list[Expr]) -> SeqExpr:
    """The body of a function for these arguments, with variables of its own."""
    sizes: dict[prim.Var, PrimExpr] = {}
    copier = _Copier(sizes)
    bindings = []
    for param, argument in zip(function.params, arguments, strict=True):
        info = argument.struct_info
        _learn(param.struct_info, info, sizes)
        var = Var(param.name_hint, info)
        copier.set_var_remap(param.vid, var)
        bindings.append(VarBinding(var, argument))
    body = copier.visit_expr(function.body)
    return SeqExpr([BindingBlock(bindings), *body.blocks], body.body)


class _Copier(PyExprMutator):
    """Copies expressions with new variables, of which all is inferred anew.

    Args:
        sizes: what stands in place of variables of sizes.
    """

    def __init__(self, sizes: Mapping[prim.Var, PrimExpr]) -> None:
        super().__init__()
        self.sizes = sizes

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        used = [t for t in prim.post_order(expr) if isinstance(t, prim.Var)]
        known = any(var in self.sizes for var in used)
        return prim.substitute(expr, self.sizes) if known else expr

    def visit_var_def_(self, var: Var) -> Var:
        return Var(var.name_hint)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        return DataflowVar(var.name_hint)


def _learn(
    info: StructInfo, known: StructInfo, sizes: dict[prim.Var, PrimExpr]
) -> None:
    """Learn what the variables of ``info`` are where it describes ``known``."""
    if isinstance(info, TupleStructInfo) and isinstance(known, TupleStructInfo):
        for mine, theirs in zip(info.fields, known.fields, strict=True):
            _learn(mine, theirs, sizes)
    for mine, theirs in zip(_sizes(info), _sizes(known), strict=False):
        if isinstance(mine, prim.Var):
            sizes.setdefault(mine, theirs)


def _sizes(info: StructInfo) -> tuple[Any, ...]:
    if isinstance(info, TensorStructInfo):
        return tuple(info.shape) if isinstance(info.shape, ShapeExpr) else ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return (info.value,)
    return ()
