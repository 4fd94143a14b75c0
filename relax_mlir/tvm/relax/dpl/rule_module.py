"""Rewrite rules written as a module with functions ``pattern`` and ``replacement``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.errors import UnknownNameError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import structural_equal
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
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm.relax.dpl.constrained import PrimArrPattern, StructInfoPattern
from relax_mlir.tvm.relax.dpl.rewriters import RewriteRule, make_rewrite_rule
from relax_mlir.tvm.relax.dpl.structure import (
    CallPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)

__all__ = ["rule_from_module"]


def rule_from_module(mod: IRModule) -> RewriteRule:
    """Build a rewrite rule from a module with ``pattern`` and ``replacement``.

    Other functions of the module are added to the rewritten module with replacements.

    Raises:
        KeyError: ``pattern`` or ``replacement`` is missing.
        TypeError: one of them is not a Relax function, or an expression of ``pattern`` has
            no pattern class.
        ValueError: their signatures differ, or another function is public.
    """
    pattern, replacement = _function(mod, "pattern"), _function(mod, "replacement")
    subroutines: dict[str, BaseFunc] = {}
    for var, function in mod.functions.items():
        if var.name_hint in ("pattern", "replacement"):
            continue
        if "global_symbol" in function.attrs:
            raise ValueError(
                f"function `{var.name_hint}` is publicly exposed: expected only "
                "`pattern` and `replacement` to be public"
            )
        subroutines[var.name_hint] = function
    expected, actual = pattern.struct_info, replacement.struct_info
    if not structural_equal(expected, actual):
        raise ValueError(
            "`pattern` and `replacement` must have the same signature: expected "
            f"{expected}, got {actual}"
        )
    return _rule(pattern, replacement, subroutines)


def _function(mod: IRModule, name: str) -> Function:
    if name not in mod:
        raise UnknownNameError(
            f"module has no function `{name}`: a rewrite rule needs one"
        )
    function = mod[name]
    if not isinstance(function, Function):
        raise TypeError(f"`{name}`: expected a Relax function, got a PrimFunc")
    return function


def _rule(
    pattern: Function, replacement: Function, subroutines: Mapping[str, BaseFunc]
) -> RewriteRule:
    params = [WildcardPattern() for _ in pattern.params]
    patterns: dict[Var, DFPattern] = {
        param: StructInfoPattern(wildcard, param.struct_info)
        for param, wildcard in zip(pattern.params, params, strict=True)
    }
    body = pattern.body
    for block in body.blocks:
        for binding in block.bindings:
            value = _pattern_of(binding.value, patterns)
            if isinstance(binding, MatchCast):
                value = StructInfoPattern(value, binding.struct_info)
            patterns[binding.var] = value

    def rewrite(expr: Expr, matched: dict[DFPattern, Expr]) -> Expr:
        return _instantiate(replacement, [matched[param] for param in params])

    return make_rewrite_rule(_pattern_of(body.body, patterns), rewrite, subroutines)


def _pattern_of(expr: Expr, patterns: Mapping[Var, DFPattern]) -> DFPattern:
    """Converts an expression to a pattern.

    Raises:
        TypeError: no pattern class matches this kind of expression.
    """
    if isinstance(expr, Var):
        return patterns[expr]
    if isinstance(expr, Call):
        args = [_pattern_of(a, patterns) for a in expr.args]
        return CallPattern(_pattern_of(expr.op, patterns), args, add_constraint=False)
    if isinstance(expr, Tuple):
        return TuplePattern([_pattern_of(f, patterns) for f in expr.fields])
    if isinstance(expr, TupleGetItem):
        return TupleGetItemPattern(_pattern_of(expr.tuple_value, patterns), expr.index)
    if isinstance(expr, Op):
        return ExprPattern(expr)
    if isinstance(expr, ExternFunc):
        return ExternFuncPattern(expr.global_symbol)
    if isinstance(expr, PrimValue):
        return StructInfoPattern(WildcardPattern(), PrimStructInfo(expr.value))
    if isinstance(expr, ShapeExpr):
        return PrimArrPattern(expr.values)
    raise TypeError(
        f"`pattern`: a `{type(expr).__name__}` cannot be a pattern: `{expr!r}`"
    )


def _instantiate(function: Function, arguments: list[Expr]) -> SeqExpr:
    """Copies the body of a function with fresh variables, bound to the arguments."""
    sizes: dict[prim.Var, PrimExpr] = {}
    copier = _Copier(sizes)
    bindings = []
    for param, argument in zip(function.params, arguments, strict=True):
        info = argument.struct_info
        _bind_symbols(param.struct_info, info, sizes)
        var = Var(param.name_hint, info)
        copier.set_var_remap(param.vid, var)
        bindings.append(VarBinding(var, argument))
    body = copier.visit_expr(function.body)
    return SeqExpr([BindingBlock(bindings), *body.blocks], body.body)


class _Copier(PyExprMutator):
    """Copies expressions with fresh variables; their struct info is inferred again.

    Args:
        sizes: substitution of symbolic variables.
    """

    def __init__(self, sizes: Mapping[prim.Var, PrimExpr]) -> None:
        super().__init__()
        self.sizes = sizes

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        used = [e for e in prim.post_order(expr) if isinstance(e, prim.Var)]
        is_bound = any(var in self.sizes for var in used)
        return prim.substitute(expr, self.sizes) if is_bound else expr

    def visit_var_def_(self, var: Var) -> Var:
        return Var(var.name_hint)

    def visit_dataflow_var_def_(self, var: DataflowVar) -> Var:
        return DataflowVar(var.name_hint)


def _bind_symbols(
    param: StructInfo, argument: StructInfo, sizes: dict[prim.Var, PrimExpr]
) -> None:
    """Binds the symbolic variables of a parameter to the sizes of its argument."""
    if isinstance(param, TupleStructInfo) and isinstance(argument, TupleStructInfo):
        for param_field, argument_field in zip(
            param.fields, argument.fields, strict=True
        ):
            _bind_symbols(param_field, argument_field, sizes)
    for dim, size in zip(_sizes(param), _sizes(argument), strict=False):
        if isinstance(dim, prim.Var):
            sizes.setdefault(dim, size)


def _sizes(info: StructInfo) -> tuple[Any, ...]:
    if isinstance(info, TensorStructInfo):
        return tuple(info.shape) if isinstance(info.shape, ShapeExpr) else ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return (info.value,)
    return ()
