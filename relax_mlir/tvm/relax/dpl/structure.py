"""Structural patterns of expressions, and the operators that combine patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import MissingElementError
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    ExternFunc,
    GlobalVar,
    Op,
    Tuple,
    TupleGetItem,
    Var,
)
from relax_mlir.objects.free_variables import get_var2val
from relax_mlir.objects.function import Function
from relax_mlir.tvm.relax.dpl.constraints import (
    PatternConstraints,
    SameShapeConstraint,
    UseEdge,
)
from relax_mlir.tvm.relax.dpl.matcher import PatternMatcher

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.dpl.constrained import (
        AttrPattern,
        DataTypePattern,
        ShapePattern,
        StructInfoPattern,
        TypePattern,
    )

__all__ = [
    "AndPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataflowVarPattern",
    "ExprPattern",
    "ExternFuncPattern",
    "FunctionPattern",
    "GlobalVarPattern",
    "NotPattern",
    "OrPattern",
    "PatternSeq",
    "TupleGetItemPattern",
    "TuplePattern",
    "UnorderedTuplePattern",
    "VarPattern",
    "WildcardPattern",
]


class _Chainable:
    """Base of patterns and pattern sequences: the ``used_by`` operators."""

    def _chain(self) -> PatternSeq:
        raise NotImplementedError

    def used_by(self, other: _Chainable, index: int = -1) -> PatternSeq:
        """Require that ``other`` uses it, as argument ``index`` (-1: any)."""
        return self._chain()._followed_by(
            other._chain(), UseEdge(only=False, index=index)
        )

    def only_used_by(self, other: _Chainable, index: int = -1) -> PatternSeq:
        """Require that ``other`` is its only user."""
        return self._chain()._followed_by(
            other._chain(), UseEdge(only=True, index=index)
        )

    def __xor__(self, other: _Chainable) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: _Chainable) -> PatternSeq:
        return self.only_used_by(other)


class DFPattern(_Chainable):
    """Dataflow pattern of expressions.

    Patterns have identity: one object that occurs twice in a pattern must match the same
    expression both times; ``dup`` makes an independent copy.
    """

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        """Whether it matches; nested patterns are matched through ``matcher``."""
        raise NotImplementedError

    def match(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> bool:
        """Whether it matches an expression.

        Args:
            expr: the expression.
            var2val: bound values of variables; the match looks through these variables.
        """
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Var, Expr] | None = None
    ) -> dict[DFPattern, Expr] | None:
        """The expression matched by it and by each nested pattern; None if no match."""
        matcher = PatternMatcher(var2val)
        return matcher.matched if matcher.visit(self, expr) else None

    def __call__(
        self,
        *args: DFPattern,
        varg_default_wildcard: bool = False,
        add_constraint: bool = True,
    ) -> CallPattern:
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def optional(self, make: Callable[[DFPattern], DFPattern]) -> OrPattern:
        """This pattern, or the pattern that ``make`` builds around it."""
        return OrPattern(self, make(self))

    def _constrained(self, kind: str, *args: Any) -> Any:
        from relax_mlir.tvm.relax.dpl import constrained

        return getattr(constrained, kind)(self, *args)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """This pattern, with these attributes."""
        return self._constrained("AttrPattern", attrs)

    def has_struct_info(self, struct_info: Any) -> StructInfoPattern:
        """This pattern, with this struct info; its symbolic variables match any size."""
        return self._constrained("StructInfoPattern", struct_info)

    has_ty = has_struct_info

    def has_type(self, ttype: Any) -> TypePattern:
        """This pattern, with this static type: kind, element type and rank."""
        return self._constrained("TypePattern", ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This pattern, with this element type."""
        return self._constrained("DataTypePattern", dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """This pattern, with this tensor shape.

        Raises:
            ValueError: the shape is not a list.
        """
        return self._constrained("ShapePattern", shape)

    def dup(self) -> DFPattern:
        """A copy of the pattern with an identity of its own."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def fork_to(self, *args: _Chainable) -> None:
        """Require that each of ``args`` uses it."""
        for user in args:
            self.used_by(user)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """Require that it and ``args`` have the same shape."""
        return SameShapeConstraint(self, *args)

    def _chain(self) -> PatternSeq:
        return PatternSeq([self])


class PatternSeq(_Chainable):
    """Sequence of patterns, each used by the next.

    Args:
        patterns: the patterns in order.
        only_use: each pattern is the only user of the one before.
    """

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        if not self.patterns:
            raise ValueError("PatternSeq: `patterns`: expected at least one pattern")
        self._edges = [UseEdge(only=only_use)] * (len(self.patterns) - 1)

    def _chain(self) -> PatternSeq:
        return self

    def _followed_by(self, other: PatternSeq, edge: UseEdge) -> PatternSeq:
        joined = PatternSeq([*self.patterns, *other.patterns])
        joined._edges = [*self._edges, edge, *other._edges]
        context = PatternConstraints.innermost()
        if context is not None:
            context.add_edge(self.patterns[-1], other.patterns[0], edge)
        return joined

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """A copy of the sequence, with copies of its patterns."""
        first, *others = [pattern.dup() for pattern in self.patterns]
        copy = PatternSeq([first])
        for pattern, edge in zip(others, self._edges, strict=True):
            copy = copy._followed_by(PatternSeq([pattern]), edge)
        return copy


class ExprPattern(DFPattern):
    """Matches expressions structurally equal to a given one."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if isinstance(self.expr, Op) or isinstance(expr, Op):
            return self.expr == expr
        return structural_equal(self.expr, expr)


class VarPattern(DFPattern):
    """Matches variables, of a given name or of any."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return isinstance(expr, Var) and self.name in ("", expr.name_hint)


class DataflowVarPattern(VarPattern):
    """Matches dataflow variables."""

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return isinstance(expr, DataflowVar) and super().matches(expr, matcher)


class GlobalVarPattern(DFPattern):
    """Matches global variables whose name contains ``name_hint``."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return isinstance(expr, GlobalVar) and self.name in expr.name_hint


class ExternFuncPattern(DFPattern):
    """Matches packed functions, of a given name or of any."""

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        is_function = isinstance(expr, ExternFunc)
        return is_function and self.global_symbol in ("", expr.global_symbol)


class ConstantPattern(DFPattern):
    """Matches constants."""

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return isinstance(expr, Constant)


class WildcardPattern(DFPattern):
    """Matches any expression."""

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return True


_COMMUTATIVE = ("relax.add", "relax.multiply")


class CallPattern(DFPattern):
    """Matches calls.

    Args:
        op: pattern of the callee.
        args: patterns of the arguments; both orders are tried for ``relax.add`` and
            ``relax.multiply``.
        varg_default_wildcard: allow further arguments.
        add_constraint: in an open context, add an edge from each of ``args`` to it.
    """

    def __init__(
        self,
        op: DFPattern,
        args: Sequence[DFPattern],
        varg_default_wildcard: bool = False,
        add_constraint: bool = True,
    ) -> None:
        self.op = op
        self.args = tuple(args)
        self.varg_default_wildcard = varg_default_wildcard
        if add_constraint:
            for index, arg in enumerate(self.args):
                arg.used_by(self, index)

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not isinstance(expr, Call):
            return False
        if not matcher.visit(self.op, expr.op):
            return self._matches_reassociated_division(expr, matcher)
        extra = len(expr.args) - len(self.args)
        if extra < 0 or (extra > 0 and not self.varg_default_wildcard):
            return False
        if matcher.visit_all(self.args, expr.args):
            return True
        is_commutative = isinstance(expr.op, Op) and expr.op.name in _COMMUTATIVE
        return is_commutative and matcher.visit_all(self.args, expr.args[::-1])

    def _matches_reassociated_division(
        self, expr: Call, matcher: PatternMatcher
    ) -> bool:
        """Matches the pattern ``(a * b) / c`` against ``a * (b / c)``, as TVM does."""
        if _calls(self, "relax.divide") and _calls(expr, "relax.multiply"):
            product, divisor = self.args
            if not (
                isinstance(product, CallPattern) and _calls(product, "relax.multiply")
            ):
                return False
            if not any(_calls(a, "relax.divide") for a in expr.args):
                return False
            for first, second in (product.args, product.args[::-1]):
                quotient = CallPattern(self.op, (first, divisor), add_constraint=False)
                reassociated = CallPattern(
                    product.op, (second, quotient), add_constraint=False
                )
                if matcher.visit(reassociated, expr):
                    return True
        return False


def _calls(node: Expr | DFPattern, name: str) -> bool:
    """Whether an expression, or a pattern, is a call of the operator ``name``."""
    if isinstance(node, CallPattern):
        op = node.op.expr if isinstance(node.op, ExprPattern) else None
    else:
        op = node.op if isinstance(node, Call) else None
    return isinstance(op, Op) and op.name == name


class FunctionPattern(DFPattern):
    """Matches functions.

    Args:
        params: patterns of the parameters.
        body: pattern of the returned value.
    """

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params = tuple(params)
        self.body = body

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not isinstance(expr, Function):
            return False
        params = expr.params
        if len(params) != len(self.params) or not matcher.visit_all(
            self.params, params
        ):
            return False
        matcher.values.update(get_var2val(expr))
        return matcher.visit(self.body, expr.body.body)


class TuplePattern(DFPattern):
    """Matches tuples whose fields match in order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not isinstance(expr, Tuple) or len(expr.fields) != len(self.fields):
            return False
        return matcher.visit_all(self.fields, expr.fields)

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        if index is None:
            return TupleGetItemPattern(self)
        if not -len(self.fields) <= index < len(self.fields):
            raise MissingElementError(
                f"no field {index}: the pattern has {len(self.fields)}"
            )
        return TupleGetItemPattern(self, index % len(self.fields))

    def __len__(self) -> int:
        return len(self.fields)


class UnorderedTuplePattern(DFPattern):
    """Matches tuples whose fields match in any order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not isinstance(expr, Tuple) or len(expr.fields) != len(self.fields):
            return False
        return _match_unordered(self.fields, expr.fields, matcher)

    def __len__(self) -> int:
        return len(self.fields)


def _match_unordered(
    patterns: Sequence[DFPattern], fields: Sequence[Expr], matcher: PatternMatcher
) -> bool:
    """Assigns patterns to fields by backtracking."""
    if not patterns:
        return True
    for index, field in enumerate(fields):
        mark = matcher.mark()
        others = [*fields[:index], *fields[index + 1 :]]
        if matcher.visit(patterns[0], field):
            if _match_unordered(patterns[1:], others, matcher):
                return True
            matcher.backtrack(mark)
    return False


class TupleGetItemPattern(DFPattern):
    """Matches tuple element accesses; ``index`` None is any element."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple = tuple_value
        self.index = -1 if index is None else index

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        if not isinstance(expr, TupleGetItem) or self.index not in (-1, expr.index):
            return False
        return matcher.visit(self.tuple, expr.tuple_value)


class OrPattern(DFPattern):
    """Matches if either pattern does; the left is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = left
        self.right = right

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return matcher.visit(self.left, expr) or matcher.visit(self.right, expr)


class AndPattern(DFPattern):
    """Matches if both patterns do."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = left
        self.right = right

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return matcher.visit(self.left, expr) and matcher.visit(self.right, expr)


class NotPattern(DFPattern):
    """Matches expressions that another pattern does not match."""

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = to_reject

    def matches(self, expr: Expr, matcher: PatternMatcher) -> bool:
        return not matcher.visit(self.reject, expr)
