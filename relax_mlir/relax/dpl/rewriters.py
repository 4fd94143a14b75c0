"""Which bindings of a block a rule replaces, and by what."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.objects.expr import Binding, Expr, Tuple, TupleGetItem, Var
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.analysis.variables import free_vars
from relax_mlir.relax.dpl.matcher import Matcher
from relax_mlir.relax.dpl.structure import DFPattern, OrPattern, TuplePattern

__all__ = ["EitherRule", "ExprRule", "Replacement", "Rule", "TupleRule", "rule_for"]

Rewrite = Callable[[Expr, dict[DFPattern, Expr]], "Expr | None"]
Subroutines = Mapping[str, BaseFunc]


@dataclass(frozen=True)
class Replacement:
    """What a variable is bound to from now on.

    Attributes:
        value: the expression.
        subroutines: functions that it calls and that come with it, by name.
    """

    value: Expr
    subroutines: Subroutines


class Rule:
    """Says what the bindings of one block become."""

    def rewrites(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        """The replacements, for some of ``bindings``; their order may be changed."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExprRule(Rule):
    """Replaces values that a pattern matches.

    Attributes:
        pattern: what is replaced.
        rewrite: gives what stands in its place; the same expression, or None, for no change.
        whole: patterns that the match stands for too.
        subroutines: functions that replacements call.
    """

    pattern: DFPattern
    rewrite: Rewrite
    whole: tuple[DFPattern, ...] = ()
    subroutines: Subroutines = field(default_factory=dict)

    def rewrites(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
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
        matcher = Matcher(values)
        if not matcher.visit(self.pattern, expr):
            return None
        for pattern in self.whole:
            matcher.matched[pattern] = matcher.value(expr)
        new = self.rewrite(expr, matcher.matched)
        return None if new is None or new.same_as(expr) else new


@dataclass(frozen=True)
class EitherRule(Rule):
    """Two rules; the second may replace what the first leaves."""

    first: Rule
    second: Rule

    def rewrites(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        found = self.first.rewrites(bindings)
        others = [b for b in bindings if b.var not in found]
        return {**found, **self.second.rewrites(others)} if others else found


@dataclass
class _Candidate:
    """A binding that may be a field of a tuple.

    Attributes:
        matches: for each field, what the patterns stand for if it is that field.
        users: what uses it among the bindings so far.
        is_used: whether it is part of a match already.
    """

    var: Var
    value: Expr
    matches: list[dict[DFPattern, Expr] | None]
    users: set[Var] = field(default_factory=set)
    is_used: bool = False


@dataclass(frozen=True)
class TupleRule(Rule):
    """Replaces several values at once that would match the fields of a tuple.

    Attributes:
        patterns: one per field; at most three, as all combinations are tried.
        rewrite, whole, subroutines: as of :class:`ExprRule`.
    """

    patterns: tuple[DFPattern, ...]
    rewrite: Rewrite
    whole: tuple[DFPattern, ...] = ()
    subroutines: Subroutines = field(default_factory=dict)

    def rewrites(self, bindings: Sequence[Binding]) -> dict[Var, Replacement]:
        if len(self.patterns) > 3:
            raise ValueError(
                f"tuple pattern: expected at most 3 fields, got {len(self.patterns)}. "
                "All combinations of bindings are tried."
            )
        found: dict[Var, Replacement] = {}
        values: dict[Var, Expr] = {}
        candidates: list[_Candidate] = []
        numbers: dict[Var, int] = {}
        for binding in bindings:
            candidates.append(self._candidate(binding, values))
            numbers[binding.var] = len(candidates) - 1
            match = self._first_match(candidates)
            if match is None:
                values[binding.var] = binding.value
            for candidate, new in match or ():
                candidate.is_used = True
                values.pop(candidate.var, None)
                found[candidate.var] = Replacement(new, self.subroutines)
            for var in free_vars(binding.value):
                if var in numbers:
                    candidates[numbers[var]].users.add(binding.var)
        return found

    def _candidate(self, binding: Binding, values: Mapping[Var, Expr]) -> _Candidate:
        matches = [p.extract_matched_expr(binding.value, values) for p in self.patterns]
        return _Candidate(binding.var, binding.value, matches)

    def _first_match(
        self, candidates: list[_Candidate]
    ) -> list[tuple[_Candidate, Expr]] | None:
        """A tuple of which the last candidate is a field, late ones first."""
        fields = range(len(self.patterns))
        for own in reversed(fields):
            if candidates[-1].matches[own] is None:
                continue
            choices = [
                [candidates[-1]] if number == own else _earlier(candidates, number)
                for number in reversed(fields)
            ]
            for chosen in itertools.product(*choices):
                new = self._replaced(chosen[::-1])
                if new is not None:
                    return list(zip(chosen[::-1], new, strict=True))
        return None

    def _replaced(self, chosen: Sequence[_Candidate]) -> list[Expr] | None:
        """What the chosen bindings become, or None if they are no match."""
        if len({id(candidate) for candidate in chosen}) < len(chosen):
            return None
        matched = _merged([c.matches[n] or {} for n, c in enumerate(chosen)])
        if matched is None:
            return None
        inside = {expr for expr in matched.values() if isinstance(expr, Var)}
        if any(candidate.users - inside for candidate in chosen):
            return None
        whole = Tuple([candidate.value for candidate in chosen])
        for pattern in self.whole:
            matched[pattern] = whole
        new = self.rewrite(whole, matched)
        if new is None or new is whole:
            return None
        if not isinstance(new, Tuple):
            return [TupleGetItem(new, number) for number in range(len(chosen))]
        if len(new.fields) != len(chosen):
            raise ValueError(
                f"replacement of a tuple: expected {len(chosen)} fields, got "
                f"{len(new.fields)}"
            )
        return list(new.fields)


def _earlier(candidates: list[_Candidate], number: int) -> list[_Candidate]:
    """The candidates before the last that may be field ``number``, late ones first."""
    return [
        candidate
        for candidate in reversed(candidates[:-1])
        if candidate.matches[number] is not None and not candidate.is_used
    ]


def _merged(
    matches: Sequence[Mapping[DFPattern, Expr]],
) -> dict[DFPattern, Expr] | None:
    """All matches, or None if a pattern stands for different expressions."""
    merged: dict[DFPattern, Expr] = {}
    for match in matches:
        for pattern, expr in match.items():
            known = merged.setdefault(pattern, expr)
            if known is not expr and not structural_equal(known, expr):
                return None
    return merged


def rule_for(
    pattern: DFPattern,
    rewrite: Rewrite,
    subroutines: Subroutines | None = None,
    whole: tuple[DFPattern, ...] = (),
) -> Rule:
    """The rule that replaces what a pattern matches.

    Both sides of ``|`` are rules of their own, so the right one is tried where the left
    one changes nothing. The fields of a tuple need not stand in a tuple.
    """
    functions = subroutines or {}
    if isinstance(pattern, OrPattern):
        inner = (*whole, pattern)
        return EitherRule(
            rule_for(pattern.left, rewrite, functions, inner),
            rule_for(pattern.right, rewrite, functions, inner),
        )
    plain = ExprRule(pattern, rewrite, whole, functions)
    if isinstance(pattern, TuplePattern):
        fields = TupleRule(pattern.fields, rewrite, (*whole, pattern), functions)
        return EitherRule(plain, fields)
    return plain
