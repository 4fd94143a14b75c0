"""Block predicates rewritten as conditions on iter vars, independent of the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds, is_known_le
from relax_mlir.symbolic.dims import Dim, Expr
from relax_mlir.symbolic.monomials import Atom, terms_of
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import tree
from relax_mlir.tvm.tir.schedule.affine import loop_dependent_terms
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, Limits
from relax_mlir.tvm.tir.schedule.new_axes import iter_symbol
from relax_mlir.tvm.tir.schedule.predicates import (
    Condition,
    block_conditions,
    is_nonnegative,
)
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import (
    iter_extents,
    limits_at,
    loop_bounds,
    loop_var,
)

__all__ = ["domain_conditions", "iter_conditions", "substitute_iters"]


def iter_conditions(
    block: ir.Operation, indices: IndexSymbols, where: str
) -> list[Condition]:
    """The conditions that exclude block instances, in terms of iter var symbols.

    Implied bounds of iter vars, and conditions that hold in the first iteration of loops that no
    binding uses, are dropped.

    Raises:
        ScheduleError: a condition cannot be expressed in iter vars.
    """
    limits = limits_at(indices, tree.parent_of(block))
    values = [indices.of(value) for value in tree.bindings(block)]
    axes = [dims.symbol(iter_symbol(number)) for number in range(len(values))]
    loops = {indices.symbol(loop_var(loop)) for loop in tree.enclosing_loops(block)}
    domains = dict(limits)
    upper_bounds: dict[str, Dim] = {}
    for number, (start, extent) in enumerate(
        zip(tree.iter_var_mins(block), iter_extents(indices, block), strict=True)
    ):
        name = iter_symbol(number)
        upper_bounds[name] = start + extent - 1
        domains[name] = (
            bounds(start, limits)[0],
            bounds(upper_bounds[name], limits)[1],
        )
    found: list[Condition] = []
    for condition in block_conditions(block, indices):
        if condition.value is not None:
            raise _unsupported_predicate(block, where)
        slack = _in_iter_vars(condition.slack, values, axes, loops, limits)
        if slack is None:
            if not _holds_initially(condition.slack, values, block, indices):
                raise _unsupported_predicate(block, where)
            continue
        if not is_nonnegative(slack, domains, upper_bounds):
            found.append(Condition("le", 0, slack))
    return found


def _unsupported_predicate(block: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: the predicate of {tree.describe(block)} does not only constrain its iter "
        "vars: expected comparisons of only those"
    )


def _holds_initially(
    slack: Dim, values: Sequence[Dim], block: ir.Operation, indices: IndexSymbols
) -> bool:
    """Whether a condition involves only unbound loops and holds in their first iteration."""
    used = {name for value in values for name in symbols_of(value)}
    starts = {
        indices.symbol(loop_var(loop)): loop_bounds(indices, loop)[0]
        for loop in tree.enclosing_loops(block)
    }
    free = {name: low for name, low in starts.items() if name not in used}
    first = substitute(slack, free)
    return not set(starts) & set(symbols_of(first)) and is_known_le(0, first)


def _in_iter_vars(
    dim: Dim,
    values: Sequence[Dim],
    axes: Sequence[Dim],
    loops: set[str],
    limits: Limits,
) -> Dim | None:
    """An expression of loops rewritten in iter vars, or None."""
    part = loop_dependent_terms(dim, loops)
    for value, axis in zip(values, axes, strict=True):
        for scale in {abs(by) for _, by in terms_of(value)} - {1}:
            for sign in (1, -1):  # the high part of a binding: a quotient
                low, high = bounds(value - sign * scale * part, limits)
                if low is not None and high is not None and 0 <= low <= high < scale:
                    return dim - part + sign * dims.floordiv(axis, scale)
    remaining = list(values)
    for number, axis in enumerate(axes):
        atom = _single_atom(remaining[number], loops)
        if atom is None:
            continue
        rest, factor = _without_atom(remaining[number], atom)
        known = factor * (axis - rest)
        remaining = [_substitute_atom(value, atom, known) for value in remaining]
        dim = _substitute_atom(dim, atom, known)
    return None if loops & set(symbols_of(dim)) else dim


def _single_atom(value: Dim, loops: set[str]) -> Atom | None:
    """A loop, or a quotient of loops, with coefficient 1 or -1 in a binding, or None."""
    for monomial, factor in terms_of(value):
        if len(monomial) == 1 and abs(factor) == 1:
            (atom,) = monomial
            rest, _ = _without_atom(value, atom)
            is_symbol = atom.op == "symbol"
            if loops & set(symbols_of(Expr.of({monomial: 1}))) and not (
                is_symbol and atom.text in symbols_of(rest)
            ):
                return atom
    return None


def _without_atom(dim: Dim, atom: Atom) -> tuple[Dim, int]:
    """The rest of a sum without an atom, and the coefficient of the atom."""
    factor = dict(terms_of(dim))[(atom,)]
    return dim - Expr.of({(atom,): factor}), factor


def _substitute_atom(dim: Dim, atom: Atom, known: Dim) -> Dim:
    """A sum with an expression substituted for an atom."""
    if atom.op == "symbol":
        return substitute(dim, {atom.text: known})
    total: Dim = 0
    for monomial, factor in terms_of(dim):
        term: Dim = factor
        for one in monomial:
            term = term * (known if one == atom else Expr.of({(one,): 1}))
        total = total + term
    return total


def substitute_iters(
    conditions: Sequence[Condition], values: Mapping[int, Dim]
) -> list[Condition]:
    """Conditions of :func:`iter_conditions` with values substituted for iter vars."""
    known = {iter_symbol(number): value for number, value in values.items()}
    return [_nonnegative(substitute(c.slack, known)) for c in conditions]


def domain_conditions(
    values: Sequence[Dim], domains: Sequence[Interval]
) -> list[Condition]:
    """The conditions that bindings are within the iter domain."""
    found: list[Condition] = []
    for value, interval in zip(values, domains, strict=True):
        found += [
            Condition("le", interval.low, value),
            Condition("lt", value, interval.high + 1),
        ]
    return found


def _nonnegative(slack: Dim) -> Condition:
    """The canonical condition that an expression is nonnegative: ``x < n`` for ``n - 1 - x``."""
    terms = [(by, bool(monomial)) for monomial, by in terms_of(slack)]
    constant = sum(by for by, is_variable in terms if not is_variable)
    if all(by < 0 for by, is_variable in terms if is_variable):
        return Condition("lt", constant - slack, constant + 1)
    return Condition("le", -constant, slack - constant)
