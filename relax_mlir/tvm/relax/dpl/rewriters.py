"""Rewrite rules: patterns with replacements, applied to the bindings of a block."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import Binding, Expr, Tuple, TupleGetItem, Var
from relax_mlir.objects.free_variables import free_vars
from relax_mlir.objects.function import BaseFunc
from relax_mlir.tvm.relax.dpl.matcher import PatternMatcher
from relax_mlir.tvm.relax.dpl.structure import DFPattern, OrPattern, TuplePattern

__all__ = [
    "EitherRule",
    "ExprRule",
    "Replacement",
    "RewriteRule",
    "TupleRule",
    "make_rewrite_rule",
]

Rewrite = Callable[[Expr, dict[DFPattern, Expr]], "Expr | None"]
Subroutines = Mapping[str, BaseFunc]


@dataclass(frozen=True)
class Replacement:
    """New value of a binding.

    Attributes:
        value: the expression.
        subroutines: functions that it calls and adds to the module, by name.
    """

    value: Expr
    subroutines: Subroutines


class RewriteRule:
    """Rewrite rule on the bindings of one block."""

    def replacements(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        """The new values of some of ``bindings``; their order may have to change."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExprRule(RewriteRule):
    """Replaces bound values that match a pattern.

    Attributes:
        pattern: the pattern.
        rewrite: computes the replacement; the same expression, or None, for no change.
        enclosing: further patterns to report as matched to the same expression, such as
            the ``|`` of which ``pattern`` is one side.
        subroutines: functions that replacements call.
    """

    pattern: DFPattern
    rewrite: Rewrite
    enclosing: tuple[DFPattern, ...] = ()
    subroutines: Subroutines = field(default_factory=dict)

    def replacements(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        found: dict[Var, Replacement] = {}
        values: dict[Var, Expr] = {}
        for binding in bindings:
            new = self._rewritten(binding.value, values)
            if new is None:
                values[binding.var] = binding.value
            else:
                found[binding.var] = Replacement(new, self.subroutines)
        return found

    def _rewritten(self, expr: Expr, values: Mapping[Var, Expr]) -> Expr | None:
        matcher = PatternMatcher(values)
        if not matcher.visit(self.pattern, expr):
            return None
        for pattern in self.enclosing:
            matcher.matched[pattern] = matcher.value(expr)
        new = self.rewrite(expr, matcher.matched)
        return None if new is None or new.same_as(expr) else new


@dataclass(frozen=True)
class EitherRule(RewriteRule):
    """Two rules; the second applies to the bindings that the first leaves unchanged."""

    first: RewriteRule
    second: RewriteRule

    def replacements(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        found = self.first.replacements(bindings)
        others = [b for b in bindings if b.var not in found]
        return {**found, **self.second.replacements(others)} if others else found


@dataclass
class _Candidate:
    """Binding that may match a field of a tuple pattern.

    Attributes:
        matches: for each field, the matched expressions; None if it does not match.
        users: its users among the bindings visited so far.
        is_used: it is part of a match already.
    """

    var: Var
    value: Expr
    matches: list[dict[DFPattern, Expr] | None]
    users: set[Var] = field(default_factory=set)
    is_used: bool = False


@dataclass(frozen=True)
class TupleRule(RewriteRule):
    """Replaces several bindings at once whose values match the fields of a tuple pattern.

    Attributes:
        patterns: one per field; at most three, because all combinations are tried.
        rewrite, enclosing, subroutines: see :class:`ExprRule`.
    """

    patterns: tuple[DFPattern, ...]
    rewrite: Rewrite
    enclosing: tuple[DFPattern, ...] = ()
    subroutines: Subroutines = field(default_factory=dict)

    def replacements(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        if len(self.patterns) > 3:
            raise ValueError(
                f"tuple pattern: expected at most 3 fields, got {len(self.patterns)}. "
                "All combinations of bindings are tried."
            )
        found: dict[Var, Replacement] = {}
        values: dict[Var, Expr] = {}
        candidates: list[_Candidate] = []
        positions: dict[Var, int] = {}
        for binding in bindings:
            candidates.append(self._candidate(binding, values))
            positions[binding.var] = len(candidates) - 1
            match = self._first_match(candidates)
            if match is None:
                values[binding.var] = binding.value
            for candidate, new in match or ():
                candidate.is_used = True
                values.pop(candidate.var, None)
                found[candidate.var] = Replacement(new, self.subroutines)
            for var in free_vars(binding.value):
                if var in positions:
                    candidates[positions[var]].users.add(binding.var)
        return found

    def _candidate(self, binding: Binding, values: Mapping[Var, Expr]) -> _Candidate:
        matches = [p.extract_matched_expr(binding.value, values) for p in self.patterns]
        return _Candidate(binding.var, binding.value, matches)

    def _first_match(
        self, candidates: list[_Candidate]
    ) -> list[tuple[_Candidate, Expr]] | None:
        """A match with the last candidate as one field; later candidates are tried first."""
        fields = range(len(self.patterns))
        for last_field in reversed(fields):
            if candidates[-1].matches[last_field] is None:
                continue
            choices = [
                [candidates[-1]] if index == last_field else _earlier(candidates, index)
                for index in reversed(fields)
            ]
            for chosen in itertools.product(*choices):
                new = self._replaced(chosen[::-1])
                if new is not None:
                    return list(zip(chosen[::-1], new, strict=True))
        return None

    def _replaced(self, chosen: Sequence[_Candidate]) -> list[Expr] | None:
        """The new values of the chosen bindings; None if they do not match together."""
        if len({id(candidate) for candidate in chosen}) < len(chosen):
            return None
        matched = _merged([c.matches[n] or {} for n, c in enumerate(chosen)])
        if matched is None:
            return None
        inside = {expr for expr in matched.values() if isinstance(expr, Var)}
        if any(candidate.users - inside for candidate in chosen):
            return None
        tuple_ = Tuple([candidate.value for candidate in chosen])
        for pattern in self.enclosing:
            matched[pattern] = tuple_
        new = self.rewrite(tuple_, matched)
        if new is None or new is tuple_:
            return None
        if not isinstance(new, Tuple):
            return [TupleGetItem(new, index) for index in range(len(chosen))]
        if len(new.fields) != len(chosen):
            raise ValueError(
                f"replacement of a tuple: expected {len(chosen)} fields, got "
                f"{len(new.fields)}"
            )
        return list(new.fields)


def _earlier(candidates: list[_Candidate], index: int) -> list[_Candidate]:
    """The unused candidates before the last that match field ``index``, latest first."""
    return [
        candidate
        for candidate in reversed(candidates[:-1])
        if candidate.matches[index] is not None and not candidate.is_used
    ]


def _merged(
    matches: Sequence[Mapping[DFPattern, Expr]],
) -> dict[DFPattern, Expr] | None:
    """The union of the matches; None if a pattern matched different expressions."""
    merged: dict[DFPattern, Expr] = {}
    for match in matches:
        for pattern, expr in match.items():
            known = merged.setdefault(pattern, expr)
            if known is not expr and not structural_equal(known, expr):
                return None
    return merged


def make_rewrite_rule(
    pattern: DFPattern,
    rewrite: Rewrite,
    subroutines: Subroutines | None = None,
    enclosing: tuple[DFPattern, ...] = (),
) -> RewriteRule:
    """Build the rule that replaces the matches of a pattern.

    The two sides of ``|`` become separate rules, so that the right one is tried where the
    left one changes nothing. A tuple pattern also matches separate bindings.
    """
    functions = subroutines or {}
    if isinstance(pattern, OrPattern):
        inner = (*enclosing, pattern)
        return EitherRule(
            make_rewrite_rule(pattern.left, rewrite, functions, inner),
            make_rewrite_rule(pattern.right, rewrite, functions, inner),
        )
    expr_rule = ExprRule(pattern, rewrite, enclosing, functions)
    if isinstance(pattern, TuplePattern):
        tuple_rule = TupleRule(
            pattern.fields, rewrite, (*enclosing, pattern), functions
        )
        return EitherRule(expr_rule, tuple_rule)
    return expr_rule
