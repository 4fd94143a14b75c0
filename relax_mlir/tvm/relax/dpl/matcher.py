"""State of one pattern match: matched expressions and inferred symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, SeqExpr, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.dpl.pattern import DFPattern

__all__ = ["PatternMatcher", "is_provably_equal"]


@dataclass(frozen=True)
class _Mark:
    """A state of a match to return to.

    Attributes:
        count: the number of matched patterns.
        symbols: the values of the patterns' symbols.
        pending: equations of dimensions that are not yet decidable.
    """

    count: int
    symbols: Mapping[prim.Var, PrimExpr]
    pending: Sequence[tuple[PrimExpr, PrimExpr]]


class PatternMatcher:
    """One match: the expression of each pattern, and values of the patterns' symbols.

    Args:
        values: bound values of variables; patterns are matched against the value.
    """

    def __init__(self, values: Mapping[Var, Expr] | None = None) -> None:
        self.values: dict[Var, Expr] = dict(values or {})
        self.matched: dict[DFPattern, Expr] = {}
        self._order: list[DFPattern] = []
        self._symbols: dict[prim.Var, PrimExpr] = {}
        # Pairs of a pattern's dimension and an actual one, not yet decidable.
        self._pending: list[tuple[PrimExpr, PrimExpr]] = []

    def value(self, expr: Expr) -> Expr:
        """The bound value of a variable; any other expression itself."""
        while True:
            if isinstance(expr, Var) and expr in self.values:
                expr = self.values[expr]
            elif isinstance(expr, SeqExpr) and not expr.blocks:
                expr = expr.body
            else:
                return expr

    def visit(self, pattern: DFPattern, expr: Expr) -> bool:
        """Whether ``pattern`` matches; one matched before must match the same expression."""
        expr = self.value(expr)
        if pattern in self.matched:
            return self.matched[pattern].same_as(expr)
        mark = self.mark()
        if pattern.matches(expr, self):
            self.matched[pattern] = expr
            self._order.append(pattern)
            return True
        self.backtrack(mark)
        return False

    def visit_all(self, patterns: Sequence[DFPattern], exprs: Sequence[Expr]) -> bool:
        """Whether all patterns match the expressions pairwise."""
        mark = self.mark()
        pairs = zip(patterns, exprs, strict=False)
        if all(self.visit(pattern, expr) for pattern, expr in pairs):
            return True
        self.backtrack(mark)
        return False

    def mark(self) -> _Mark:
        """The current state, for :meth:`backtrack`."""
        return _Mark(len(self._order), dict(self._symbols), tuple(self._pending))

    def backtrack(self, mark: _Mark) -> None:
        """Restore an earlier state: discard later matches and sizes."""
        for pattern in self._order[mark.count :]:
            self.matched.pop(pattern, None)
        del self._order[mark.count :]
        self._symbols, self._pending = dict(mark.symbols), list(mark.pending)

    def visit_struct_info(self, pattern: StructInfo, info: StructInfo) -> bool:
        """Whether ``info`` is an instance of ``pattern``, whose symbols match any size."""
        if isinstance(pattern, TensorStructInfo) and isinstance(info, TensorStructInfo):
            if not TensorStructInfo(
                dtype=pattern.dtype, ndim=pattern.ndim, vdevice=pattern.vdevice
            ).is_base_of(info):
                return False
            return pattern.shape is None or self._visit_shape(pattern.shape, info.shape)
        if isinstance(pattern, ShapeStructInfo) and isinstance(info, ShapeStructInfo):
            if pattern.values is None:
                return pattern.is_base_of(info)
            return info.values is not None and self._unify_sizes(
                pattern.values, info.values
            )
        if isinstance(pattern, PrimStructInfo) and isinstance(info, PrimStructInfo):
            if pattern.value is None or info.value is None:
                return pattern.is_base_of(info)
            same_type = pattern.dtype == info.dtype
            return same_type and self._unify_sizes([pattern.value], [info.value])
        if isinstance(pattern, TupleStructInfo) and isinstance(info, TupleStructInfo):
            pairs = list(zip(pattern.fields, info.fields, strict=False))
            same_length = len(pattern.fields) == len(info.fields)
            return same_length and all(self.visit_struct_info(a, b) for a, b in pairs)
        return pattern.is_base_of(info)

    def _visit_shape(self, pattern: Expr, shape: Expr | None) -> bool:
        if isinstance(pattern, ShapeExpr) and isinstance(shape, ShapeExpr):
            return self._unify_sizes(pattern.values, shape.values)
        return pattern is shape

    def _unify_sizes(
        self, patterns: Sequence[PrimExpr], sizes: Sequence[PrimExpr]
    ) -> bool:
        """Unifies dimensions pairwise; each new equation may decide pending ones."""
        if len(patterns) != len(sizes):
            return False
        self._pending += zip(patterns, sizes, strict=True)
        progress = True
        while progress:
            progress = False
            for pair in list(self._pending):
                pattern, size = pair
                substituted = prim.substitute(pattern, self._symbols)
                if isinstance(pattern, prim.Var) and pattern not in self._symbols:
                    self._symbols[pattern] = size
                elif any(v not in self._symbols for v in _variables(pattern)):
                    continue
                elif not is_provably_equal(substituted, size):
                    return False
                self._pending.remove(pair)
                progress = True
        return True


def _variables(expr: PrimExpr) -> list[prim.Var]:
    return [e for e in prim.post_order(expr) if isinstance(e, prim.Var)]


def is_provably_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two dimensions are provably equal for all values of their variables."""
    if prim.structurally_equal(a, b):
        return True
    names = Symbols()
    try:
        return names.dim(a) == names.dim(b)
    except ValueError:
        return False
