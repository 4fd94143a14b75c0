"""Match graphs of patterns, with constraints between them, in a dataflow block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from relax_mlir.objects.expr import DataflowBlock, Expr, Var, VarBinding
from relax_mlir.relax.analysis.variables import get_var2val
from relax_mlir.relax.dpl.constraints import Constraints, Edge
from relax_mlir.relax.dpl.matcher import Matcher
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.expr_functor import PyExprVisitor

__all__ = ["PatternContext"]


class PatternContext(Constraints):
    """Patterns made while it is open, and how they are used by each other, belong to it.

    Args:
        incremental: whether all that the context around it demands is demanded here too.
    """

    def __init__(self, incremental: bool = False) -> None:
        super().__init__()
        outer = Constraints.innermost()
        if incremental and outer is not None:
            self.copy_from(outer)

    def __enter__(self) -> PatternContext:  # noqa: PYI034  it is for typing_extensions
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @staticmethod
    def current() -> PatternContext | None:
        """The context that was opened last, or None."""
        found = Constraints.innermost()
        return found if isinstance(found, PatternContext) else None

    def match_dfb(
        self,
        dfb: DataflowBlock,
        start_hint: Var | None = None,
        must_include_hint: bool = False,
    ) -> dict[DFPattern, Var] | None:
        """The variables that the patterns stand for, or None if they do not match.

        Args:
            dfb: the block to look in.
            start_hint: a variable to start with: one of the patterns without a producer
                stands for it, if any match has that.
            must_include_hint: whether other matches are none.
        """
        return match_graph(self, dfb, get_var2val(dfb), start_hint, must_include_hint)


def match_graph(
    context: Constraints,
    dfb: DataflowBlock,
    values: Mapping[Var, Expr],
    start_hint: Var | None = None,
    must_include_hint: bool = False,
) -> dict[DFPattern, Var] | None:
    """As :meth:`PatternContext.match_dfb`, with ``values`` that variables are bound to."""
    search = _Search(context, _Uses.of(dfb), Matcher(values))
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
    """Who uses whom in a block.

    Attributes:
        variables: those that are used, in order of their first use.
        users: by variable.
        arguments: what each variable's value uses, one entry per use.
    """

    def __init__(self) -> None:
        self.variables: list[Var] = []
        self.users: dict[Var, list[Var]] = {}
        self.arguments: dict[Var, list[Var]] = {}
        self._user: Var | None = None

    @staticmethod
    def of(block: DataflowBlock) -> _Uses:
        """The uses in one block."""
        found = _Uses()
        found.visit_binding_block(block)
        return found

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
    """Which pattern stands for which variable."""

    by_pattern: dict[DFPattern, Var] = field(default_factory=dict)
    by_var: dict[Var, DFPattern] = field(default_factory=dict)

    def add(self, pattern: DFPattern, var: Var) -> None:
        """``pattern`` stands for ``var``, unless something else does."""
        self.by_pattern.setdefault(pattern, var)
        self.by_var.setdefault(var, pattern)

    def joined(self, other: _State) -> _State:
        """All of both."""
        made = _State(dict(self.by_pattern), dict(self.by_var))
        made.merge(other)
        return made

    def merge(self, other: _State) -> None:
        """Take over what another state knows."""
        for pattern, var in other.by_pattern.items():
            self.add(pattern, var)


class _Search:
    """One search for all patterns of a context."""

    def __init__(self, context: Constraints, uses: _Uses, matcher: Matcher) -> None:
        self.context = context
        self.uses = uses
        self.matcher = matcher
        used = {user for users in context.edges.values() for user in users}
        self.roots = [pattern for pattern in context.edges if pattern not in used]

    def start_with(self, root: DFPattern, var: Var) -> dict[DFPattern, Var] | None:
        """A match in which ``root`` stands for ``var``."""
        if var not in self.uses.users:
            return None
        found = self._match_tree(root, var, _State())
        if found is None or not self._is_valid(found):
            return None
        whole = self.match_roots(found, 0)
        return None if whole is None else dict(whole.by_pattern)

    def match_roots(self, state: _State, start: int) -> _State | None:
        """``state`` with all roots matched that are not yet."""
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
            whole = self.match_roots(joined, start + 1)
            if whole is not None:
                return whole
        return None

    def _is_valid(self, state: _State) -> bool:
        return all(
            condition.holds(state.by_pattern.get) is not False
            for condition in self.context.conditions
        )

    def _match_tree(self, pattern: DFPattern, var: Var, state: _State) -> _State | None:
        """``pattern`` and all that uses it, matched with ``var`` and all that uses it."""
        self.matcher = Matcher(self.matcher.values)
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
        edges: Sequence[Edge],
        var: Var,
        state: _State,
        found: _State,
    ) -> bool:
        """Whether something that uses ``var`` is what ``user`` stands for."""
        for candidate in self.uses.users.get(var, ()):
            known = state.by_pattern.get(user)
            if candidate in found.by_var or (
                known is not None and known is not candidate
            ):
                continue
            if user in found.by_pattern or not self._fit(edges, var, candidate):
                continue
            below = self._match_tree(user, candidate, state.joined(found))
            if below is not None:
                found.add(user, candidate)
                found.merge(below)
        return user in found.by_pattern

    def _fit(self, edges: Sequence[Edge], var: Var, user: Var) -> bool:
        """Whether ``user`` uses ``var`` as the edges demand."""
        for edge in edges:
            if edge.only and len(self.uses.users[var]) != 1:
                return False
            arguments = self.uses.arguments[user]
            if edge.index >= 0 and arguments[edge.index : edge.index + 1] != [var]:
                return False
        return True
