"""Graph matching: patterns connected by def-use edges, in a dataflow block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.objects.expr import DataflowBlock, Expr, Var, VarBinding
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.free_variables import get_var2val
from relax_mlir.tvm.relax.dpl.constraints import PatternConstraints, UseEdge
from relax_mlir.tvm.relax.dpl.matcher import PatternMatcher
from relax_mlir.tvm.relax.dpl.structure import DFPattern

__all__ = ["PatternContext"]


class PatternContext(PatternConstraints):
    """Scope that collects the constraints between the patterns created in it.

    Args:
        incremental: start with the constraints of the enclosing context.
    """

    def __init__(self, incremental: bool = False) -> None:
        super().__init__()
        outer = PatternConstraints.innermost()
        if incremental and outer is not None:
            self.copy_from(outer)

    def __enter__(self) -> PatternContext:  # noqa: PYI034  it is for typing_extensions
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @staticmethod
    def current() -> PatternContext | None:
        """The most recently opened context, or None."""
        found = PatternConstraints.innermost()
        return found if isinstance(found, PatternContext) else None

    def match_dfb(
        self,
        dfb: DataflowBlock,
        start_hint: Var | None = None,
        must_include_hint: bool = False,
    ) -> dict[DFPattern, Var] | None:
        """Match the patterns to variables of a block; None if there is no match.

        Args:
            dfb: the block.
            start_hint: a variable that is tried first as the match of a root pattern (one
                without a producer).
            must_include_hint: accept only matches in which a root matches ``start_hint``.
        """
        return match_graph(self, dfb, get_var2val(dfb), start_hint, must_include_hint)


def match_graph(
    context: PatternConstraints,
    dfb: DataflowBlock,
    values: Mapping[Var, Expr],
    start_hint: Var | None = None,
    must_include_hint: bool = False,
) -> dict[DFPattern, Var] | None:
    """Implements :meth:`PatternContext.match_dfb`, given the bound values of variables."""
    search = _Search(context, _Uses.of(dfb), PatternMatcher(values))
    if not search.roots:
        return None
    if start_hint is not None:
        for root in search.roots:
            found = search.start_with(root, start_hint)
            if found is not None:
                return found
        if must_include_hint:
            return None
    found = search.match_roots(_State(), 0)
    return None if found is None else dict(found.by_pattern)


class _Uses(PyExprVisitor):
    """Def-use and use-def chains of a block.

    Attributes:
        variables: used variables, in order of their first use.
        users: variables whose values use a variable, by that variable.
        arguments: variables that a variable's value uses, one entry per use.
    """

    def __init__(self) -> None:
        self.variables: list[Var] = []
        self.users: dict[Var, list[Var]] = {}
        self.arguments: dict[Var, list[Var]] = {}
        self._user: Var | None = None

    @staticmethod
    def of(block: DataflowBlock) -> _Uses:
        """Collects the uses of one block."""
        uses = _Uses()
        uses.visit_binding_block(block)
        return uses

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self._user = binding.var
        self.visit_expr(binding.value)
        self._user = None

    def visit_var_(self, op: Var) -> None:
        user = self._user
        if user is None:
            return
        users = self.users.setdefault(op, [])
        if user not in users:
            users.append(user)
        if op not in self.variables:
            self.variables.append(op)
        self.arguments.setdefault(user, []).append(op)

    visit_dataflow_var_ = visit_var_


@dataclass
class _State:
    """Partial assignment of patterns to variables."""

    by_pattern: dict[DFPattern, Var] = field(default_factory=dict)
    by_var: dict[Var, DFPattern] = field(default_factory=dict)

    def add(self, pattern: DFPattern, var: Var) -> None:
        """Assigns ``pattern`` to ``var``, unless either is assigned already."""
        self.by_pattern.setdefault(pattern, var)
        self.by_var.setdefault(var, pattern)

    def joined(self, other: _State) -> _State:
        """The union of two assignments."""
        union = _State(dict(self.by_pattern), dict(self.by_var))
        union.merge(other)
        return union

    def merge(self, other: _State) -> None:
        """Adds the assignments of another state."""
        for pattern, var in other.by_pattern.items():
            self.add(pattern, var)


class _Search:
    """Backtracking search for an assignment of all patterns of a context."""

    def __init__(
        self, context: PatternConstraints, uses: _Uses, matcher: PatternMatcher
    ) -> None:
        self.context = context
        self.uses = uses
        self.matcher = matcher
        used = {user for users in context.edges.values() for user in users}
        self.roots = [pattern for pattern in context.edges if pattern not in used]

    def start_with(self, root: DFPattern, var: Var) -> dict[DFPattern, Var] | None:
        """A match that assigns ``root`` to ``var``."""
        if var not in self.uses.users:
            return None
        found = self._match_tree(root, var, _State())
        if found is None or not self._is_valid(found):
            return None
        complete = self.match_roots(found, 0)
        return None if complete is None else dict(complete.by_pattern)

    def match_roots(self, state: _State, start: int) -> _State | None:
        """Extends ``state`` by matches of all unmatched roots."""
        root = next((r for r in self.roots[start:] if r not in state.by_pattern), None)
        if root is None:
            return state
        for var in self.uses.variables:
            if var in state.by_var:
                continue
            found = self._match_tree(root, var, state)
            if found is None:
                continue
            joined = state.joined(found)
            if not self._is_valid(joined):
                continue
            complete = self.match_roots(joined, start + 1)
            if complete is not None:
                return complete
        return None

    def _is_valid(self, state: _State) -> bool:
        return all(
            condition.holds(state.by_pattern.get) is not False
            for condition in self.context.conditions
        )

    def _match_tree(self, pattern: DFPattern, var: Var, state: _State) -> _State | None:
        """Matches ``pattern`` and its transitive users to ``var`` and its users."""
        self.matcher = PatternMatcher(self.matcher.values)
        if not self.matcher.visit(pattern, var):
            return None
        found = _State()
        found.add(pattern, var)
        for user, edges in self.context.edges.get(pattern, {}).items():
            if not self._match_user(user, edges, var, state, found):
                return None
        return found

    def _match_user(
        self,
        user: DFPattern,
        edges: Sequence[UseEdge],
        var: Var,
        state: _State,
        found: _State,
    ) -> bool:
        """Matches pattern ``user`` to one of the users of ``var``; whether one was found."""
        for candidate in self.uses.users.get(var, ()):
            assigned = state.by_pattern.get(user)
            if candidate in found.by_var or (
                assigned is not None and assigned is not candidate
            ):
                continue
            if user in found.by_pattern or not self._satisfies(edges, var, candidate):
                continue
            below = self._match_tree(user, candidate, state.joined(found))
            if below is not None:
                found.add(user, candidate)
                found.merge(below)
        return user in found.by_pattern

    def _satisfies(self, edges: Sequence[UseEdge], var: Var, user: Var) -> bool:
        """Whether the use of ``var`` in ``user`` satisfies the edges."""
        for edge in edges:
            if edge.only and len(self.uses.users[var]) != 1:
                return False
            arguments = self.uses.arguments[user]
            if edge.index >= 0 and arguments[edge.index : edge.index + 1] != [var]:
                return False
        return True
