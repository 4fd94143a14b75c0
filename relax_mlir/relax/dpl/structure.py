"""Patterns of expressions by their structure, and how patterns are combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import MissingElementError
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.analysis.variables import get_var2val
from relax_mlir.relax.dpl.constraints import Constraints, Edge, SameShapeConstraint
from relax_mlir.relax.dpl.matcher import Matcher

if TYPE_CHECKING:
    from relax_mlir.relax.dpl.constrained import (
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
    """What may be used by something: a pattern, or a chain of them."""

    def _chain(self) -> PatternSeq:
        raise NotImplementedError

    def used_by(self, other: _Chainable, index: int = -1) -> PatternSeq:
        """Demand that ``other`` uses it, as argument ``index`` or any."""
        return self._chain()._followed_by(other._chain(), Edge(only=False, index=index))

    def only_used_by(self, other: _Chainable, index: int = -1) -> PatternSeq:
        """Demand that ``other`` and nothing else uses it."""
        return self._chain()._followed_by(other._chain(), Edge(only=True, index=index))

    def __xor__(self, other: _Chainable) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: _Chainable) -> PatternSeq:
        return self.only_used_by(other)


class DFPattern(_Chainable):
    """A pattern of expressions. Each object is a pattern of its own: used twice, it
    stands for the same expression twice.
    """

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        """Whether it matches; parts are matched through ``matcher``."""
        raise NotImplementedError

    def match(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> bool:
        """Whether it matches an expression.

        Args:
            expr: the expression.
            var2val: what variables are bound to, to look through them.
        """
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: Mapping[Var, Expr] | None = None
    ) -> dict[DFPattern, Expr] | None:
        """What it and the patterns in it stand for; None if it does not match."""
        matcher = Matcher(var2val)
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
        """It, or what ``make`` builds around it."""
        return OrPattern(self, make(self))

    def _constrained(self, kind: str, *args: Any) -> Any:
        from relax_mlir.relax.dpl import constrained

        return getattr(constrained, kind)(self, *args)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """It, with these attributes."""
        return self._constrained("AttrPattern", attrs)

    def has_struct_info(self, struct_info: Any) -> StructInfoPattern:
        """It, of which this is known; symbols may be any size."""
        return self._constrained("StructInfoPattern", struct_info)

    has_ty = has_struct_info

    def has_type(self, ttype: Any) -> TypePattern:
        """It, with this kind, element type and rank."""
        return self._constrained("TypePattern", ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """It, a tensor with these elements."""
        return self._constrained("DataTypePattern", dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """It, a tensor of this shape.

        Raises:
            ValueError: the shape is no list.
        """
        return self._constrained("ShapePattern", shape)

    def dup(self) -> DFPattern:
        """The same pattern once more, as a pattern of its own."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def fork_to(self, *args: _Chainable) -> None:
        """Demand that each of ``args`` uses it."""
        for user in args:
            self.used_by(user)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """Demand that it and ``args`` have one shape."""
        return SameShapeConstraint(self, *args)

    def _chain(self) -> PatternSeq:
        return PatternSeq([self])


class PatternSeq(_Chainable):
    """Patterns of which each is used by the next.

    Args:
        patterns: in order.
        only_use: whether nothing else uses them.
    """

    def __init__(self, patterns: Sequence[DFPattern], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        if not self.patterns:
            raise ValueError("PatternSeq: `patterns`: expected at least one pattern")
        self._edges = [Edge(only=only_use)] * (len(self.patterns) - 1)

    def _chain(self) -> PatternSeq:
        return self

    def _followed_by(self, other: PatternSeq, edge: Edge) -> PatternSeq:
        made = PatternSeq([*self.patterns, *other.patterns])
        made._edges = [*self._edges, edge, *other._edges]
        context = Constraints.innermost()
        if context is not None:
            context.add_edge(self.patterns[-1], other.patterns[0], edge)
        return made

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """The same chain once more, of patterns of their own."""
        first, *others = [pattern.dup() for pattern in self.patterns]
        made = PatternSeq([first])
        for pattern, edge in zip(others, self._edges, strict=True):
            made = made._followed_by(PatternSeq([pattern]), edge)
        return made


class ExprPattern(DFPattern):
    """One expression."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        if isinstance(self.expr, Op) or isinstance(expr, Op):
            return self.expr == expr
        return structural_equal(self.expr, expr)


class VarPattern(DFPattern):
    """A variable, with a name or any."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return isinstance(expr, Var) and self.name in ("", expr.name_hint)


class DataflowVarPattern(VarPattern):
    """A variable that only its dataflow block sees."""

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return isinstance(expr, DataflowVar) and super().matches(expr, matcher)


class GlobalVarPattern(DFPattern):
    """A function of the module; the name may be a part of its name."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return isinstance(expr, GlobalVar) and self.name in expr.name_hint


class ExternFuncPattern(DFPattern):
    """A registered function, with a name or any."""

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        is_function = isinstance(expr, ExternFunc)
        return is_function and self.global_symbol in ("", expr.global_symbol)


class ConstantPattern(DFPattern):
    """A constant."""

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return isinstance(expr, Constant)


class WildcardPattern(DFPattern):
    """Any expression."""

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return True


_COMMUTATIVE = ("relax.add", "relax.multiply")


class CallPattern(DFPattern):
    """A call.

    Args:
        op: what is called.
        args: the arguments; those of an addition or a multiplication in either order.
        varg_default_wildcard: whether the call may have more arguments.
        add_constraint: whether, in a context, ``args`` are demanded to be used by it.
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
            for number, arg in enumerate(self.args):
                arg.used_by(self, number)

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        if not isinstance(expr, Call):
            return False
        if not matcher.visit(self.op, expr.op):
            return self._matches_quotient(expr, matcher)
        more = len(expr.args) - len(self.args)
        if more < 0 or (more > 0 and not self.varg_default_wildcard):
            return False
        if matcher.visit_all(self.args, expr.args):
            return True
        is_commutative = isinstance(expr.op, Op) and expr.op.name in _COMMUTATIVE
        return is_commutative and matcher.visit_all(self.args, expr.args[::-1])

    def _matches_quotient(self, expr: Call, matcher: Matcher) -> bool:
        """Products of quotients, which may be written as quotients of products."""
        if _calls(self, "relax.divide") and _calls(expr, "relax.multiply"):
            product, divisor = self.args
            if not (isinstance(product, CallPattern) and _calls(product, _PRODUCT)):
                return False
            if not any(_calls(a, "relax.divide") for a in expr.args):
                return False
            for first, second in (product.args, product.args[::-1]):
                quotient = CallPattern(self.op, (first, divisor), add_constraint=False)
                other = CallPattern(
                    product.op, (second, quotient), add_constraint=False
                )
                if matcher.visit(other, expr):
                    return True
        return False


_PRODUCT = "relax.multiply"


def _calls(what: Expr | DFPattern, name: str) -> bool:
    """Whether an expression, or a pattern, is a call of an operator."""
    if isinstance(what, CallPattern):
        op = what.op.expr if isinstance(what.op, ExprPattern) else None
    else:
        op = what.op if isinstance(what, Call) else None
    return isinstance(op, Op) and op.name == name


class FunctionPattern(DFPattern):
    """A function.

    Args:
        params: the parameters.
        body: what it gives.
    """

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params = tuple(params)
        self.body = body

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
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
    """A tuple of these fields."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
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
    """A tuple of these fields in any order."""

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(fields)

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        if not isinstance(expr, Tuple) or len(expr.fields) != len(self.fields):
            return False
        return _match_in_any_order(self.fields, expr.fields, matcher)

    def __len__(self) -> int:
        return len(self.fields)


def _match_in_any_order(
    patterns: Sequence[DFPattern], fields: Sequence[Expr], matcher: Matcher
) -> bool:
    if not patterns:
        return True
    for number, field in enumerate(fields):
        mark = len(matcher.matched)
        others = [*fields[:number], *fields[number + 1 :]]
        if matcher.visit(patterns[0], field):
            if _match_in_any_order(patterns[1:], others, matcher):
                return True
            matcher.forget(mark)
    return False


class TupleGetItemPattern(DFPattern):
    """An element of a tuple; ``index`` None is any."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple = tuple_value
        self.index = -1 if index is None else index

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        if not isinstance(expr, TupleGetItem) or self.index not in (-1, expr.index):
            return False
        return matcher.visit(self.tuple, expr.tuple_value)


class OrPattern(DFPattern):
    """One of two; the left is tried first."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = left
        self.right = right

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return matcher.visit(self.left, expr) or matcher.visit(self.right, expr)


class AndPattern(DFPattern):
    """Two at once."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = left
        self.right = right

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return matcher.visit(self.left, expr) and matcher.visit(self.right, expr)


class NotPattern(DFPattern):
    """All that another does not match."""

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = to_reject

    def matches(self, expr: Expr, matcher: Matcher) -> bool:
        return not matcher.visit(self.reject, expr)
