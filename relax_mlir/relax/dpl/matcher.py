"""Match one pattern against one expression, with what the match learns on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, SeqExpr, ShapeExpr, Var
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

if TYPE_CHECKING:
    from relax_mlir.relax.dpl.pattern import DFPattern

__all__ = ["Matcher", "same_size"]


class Matcher:
    """One match: what each pattern stands for, and the sizes of symbols in patterns.

    Args:
        values: what variables are bound to; a pattern is matched against the value.
    """

    def __init__(self, values: Mapping[Var, Expr] | None = None) -> None:
        self.values: dict[Var, Expr] = dict(values or {})
        self.matched: dict[DFPattern, Expr] = {}
        self._order: list[DFPattern] = []
        self._sizes: dict[prim.Var, PrimExpr] = {}
        self._open: list[tuple[PrimExpr, PrimExpr]] = []  # not yet decided

    def value(self, expr: Expr) -> Expr:
        """What a variable is bound to; any other expression itself."""
        while True:
            if isinstance(expr, Var) and expr in self.values:
                expr = self.values[expr]
            elif isinstance(expr, SeqExpr) and not expr.blocks:
                expr = expr.body
            else:
                return expr

    def visit(self, pattern: DFPattern, expr: Expr) -> bool:
        """Whether ``pattern`` matches; one that matched before must be the same again."""
        expr = self.value(expr)
        if pattern in self.matched:
            return self.matched[pattern].same_as(expr)
        mark, sizes, open_ = len(self._order), dict(self._sizes), list(self._open)
        if pattern.matches(expr, self):
            self.matched[pattern] = expr
            self._order.append(pattern)
            return True
        self.forget(mark)
        self._sizes, self._open = sizes, open_
        return False

    def visit_all(self, patterns: Sequence[DFPattern], exprs: Sequence[Expr]) -> bool:
        """Whether each pattern matches the expression at its place."""
        mark = len(self._order)
        pairs = zip(patterns, exprs, strict=False)
        if all(self.visit(pattern, expr) for pattern, expr in pairs):
            return True
        self.forget(mark)
        return False

    def forget(self, mark: int) -> None:
        """Drop what was matched since the number of matches was ``mark``."""
        for pattern in self._order[mark:]:
            self.matched.pop(pattern, None)
        del self._order[mark:]

    def visit_info(self, pattern: StructInfo, info: StructInfo) -> bool:
        """Whether ``info`` is within ``pattern``, whose symbols may be any size."""
        if isinstance(pattern, TensorStructInfo) and isinstance(info, TensorStructInfo):
            if not TensorStructInfo(
                dtype=pattern.dtype, ndim=pattern.ndim, vdevice=pattern.vdevice
            ).is_base_of(info):
                return False
            return pattern.shape is None or self._visit_shape(pattern.shape, info.shape)
        if isinstance(pattern, ShapeStructInfo) and isinstance(info, ShapeStructInfo):
            if pattern.values is None:
                return pattern.is_base_of(info)
            return info.values is not None and self._sizes_fit(
                pattern.values, info.values
            )
        if isinstance(pattern, PrimStructInfo) and isinstance(info, PrimStructInfo):
            if pattern.value is None or info.value is None:
                return pattern.is_base_of(info)
            same_type = pattern.dtype == info.dtype
            return same_type and self._sizes_fit([pattern.value], [info.value])
        if isinstance(pattern, TupleStructInfo) and isinstance(info, TupleStructInfo):
            pairs = list(zip(pattern.fields, info.fields, strict=False))
            same_length = len(pattern.fields) == len(info.fields)
            return same_length and all(self.visit_info(a, b) for a, b in pairs)
        return pattern.is_base_of(info)

    def _visit_shape(self, pattern: Expr, shape: Expr | None) -> bool:
        if isinstance(pattern, ShapeExpr) and isinstance(shape, ShapeExpr):
            return self._sizes_fit(pattern.values, shape.values)
        return pattern is shape

    def _sizes_fit(
        self, patterns: Sequence[PrimExpr], sizes: Sequence[PrimExpr]
    ) -> bool:
        if len(patterns) != len(sizes):
            return False
        self._open += zip(patterns, sizes, strict=True)
        progress = True
        while progress:
            progress = False
            for pair in list(self._open):
                pattern = prim.substitute(pair[0], self._sizes)
                if isinstance(pair[0], prim.Var) and pair[0] not in self._sizes:
                    self._sizes[pair[0]] = pair[1]
                elif any(v not in self._sizes for v in _variables(pair[0])):
                    continue
                elif not same_size(pattern, pair[1]):
                    return False
                self._open.remove(pair)
                progress = True
        return True


def _variables(term: PrimExpr) -> list[prim.Var]:
    return [t for t in prim.post_order(term) if isinstance(t, prim.Var)]


def same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two terms are equal for all values of their variables."""
    if prim.structurally_equal(a, b):
        return True
    names = Symbols()
    try:
        return names.dim(a) == names.dim(b)
    except ValueError:
        return False
