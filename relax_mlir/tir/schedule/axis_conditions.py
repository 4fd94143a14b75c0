"""What the predicate of a block says of its axes, whatever loops they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dim_bounds import bounds, is_known_le
from relax_mlir.dialects.dims import Dim, Expr
from relax_mlir.dialects.monomials import Atom, terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import tree
from relax_mlir.tir.schedule.affine import sum_of_loops
from relax_mlir.tir.schedule.indices import Indices, Limits
from relax_mlir.tir.schedule.new_axes import axis_symbol
from relax_mlir.tir.schedule.predicates import (
    Condition,
    block_conditions,
    is_never_negative,
)
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import extents_of, limits_at, loop_bounds, loop_var

__all__ = ["at_axes", "axis_bounds", "axis_conditions"]


def axis_conditions(
    block: ir.Operation, indices: Indices, where: str
) -> list[Condition]:
    """The conditions that leave out points of the axes, in symbols of their numbers.

    Conditions that keep an axis in its extent, and those that hold in the first step of loops
    that no axis depends on, leave out none.

    Raises:
        ScheduleError: the predicate says something else.
    """
    limits = limits_at(indices, tree.parent_of(block))
    values = [indices.of(value) for value in tree.bindings(block)]
    axes = [dims.symbol(axis_symbol(number)) for number in range(len(values))]
    loops = {indices.symbol(loop_var(loop)) for loop in tree.enclosing_loops(block)}
    domains = dict(limits)
    tops: dict[str, Dim] = {}
    for number, (start, extent) in enumerate(
        zip(tree.axis_starts(block), extents_of(indices, block), strict=True)
    ):
        name = axis_symbol(number)
        tops[name] = start + extent - 1
        domains[name] = (bounds(start, limits)[0], bounds(tops[name], limits)[1])
    found: list[Condition] = []
    for condition in block_conditions(block, indices):
        if condition.value is not None:
            raise _unclear(block, where)
        slack = _in_axes(condition.slack, values, axes, loops, limits)
        if slack is None:
            if not _holds_at_first(condition.slack, values, block, indices):
                raise _unclear(block, where)
            continue
        if not is_never_negative(slack, domains, tops):
            found.append(Condition("le", 0, slack))
    return found


def _unclear(block: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: the predicate of {tree.describe(block)} says something else than which "
        "values its axes have: expected comparisons of those alone"
    )


def _holds_at_first(
    slack: Dim, values: Sequence[Dim], block: ir.Operation, indices: Indices
) -> bool:
    """Whether it is of loops alone that no axis needs, and their first step is right."""
    used = {name for value in values for name in symbols_of(value)}
    starts = {
        indices.symbol(loop_var(loop)): loop_bounds(indices, loop)[0]
        for loop in tree.enclosing_loops(block)
    }
    free = {name: low for name, low in starts.items() if name not in used}
    first = substitute(slack, free)
    return not set(starts) & set(symbols_of(first)) and is_known_le(0, first)


def _in_axes(
    dim: Dim,
    values: Sequence[Dim],
    axes: Sequence[Dim],
    loops: set[str],
    limits: Limits,
) -> Dim | None:
    """An expression of loops as one of axes, where what axes are says what loops are."""
    part = sum_of_loops(dim, loops)
    for value, axis in zip(values, axes, strict=True):
        for scale in {abs(by) for _, by in terms_of(value)} - {1}:
            for sign in (1, -1):  # an upper part of an axis: a quotient
                low, high = bounds(value - sign * scale * part, limits)
                if low is not None and high is not None and 0 <= low <= high < scale:
                    return dim - part + sign * dims.floordiv(axis, scale)
    waiting = list(values)
    for number, axis in enumerate(axes):
        atom = _single_atom(waiting[number], loops)
        if atom is None:
            continue
        rest, factor = _without(waiting[number], atom)
        known = factor * (axis - rest)
        waiting = [_with(value, atom, known) for value in waiting]
        dim = _with(dim, atom, known)
    return None if loops & set(symbols_of(dim)) else dim


def _single_atom(value: Dim, loops: set[str]) -> Atom | None:
    """A loop, or a quotient of loops, that a value counts in steps of 1, if there is one."""
    for monomial, factor in terms_of(value):
        if len(monomial) == 1 and abs(factor) == 1:
            (atom,) = monomial
            rest, _ = _without(value, atom)
            is_symbol = atom.op == "symbol"
            if loops & set(symbols_of(Expr.of({monomial: 1}))) and not (
                is_symbol and atom.text in symbols_of(rest)
            ):
                return atom
    return None


def _without(dim: Dim, atom: Atom) -> tuple[Dim, int]:
    """The rest of a sum, and the factor of an atom in it."""
    factor = dict(terms_of(dim))[(atom,)]
    return dim - Expr.of({(atom,): factor}), factor


def _with(dim: Dim, atom: Atom, known: Dim) -> Dim:
    """A sum with something in place of an atom."""
    if atom.op == "symbol":
        return substitute(dim, {atom.text: known})
    total: Dim = 0
    for monomial, factor in terms_of(dim):
        term: Dim = factor
        for one in monomial:
            term = term * (known if one == atom else Expr.of({(one,): 1}))
        total = total + term
    return total


def at_axes(
    conditions: Sequence[Condition], values: Mapping[int, Dim]
) -> list[Condition]:
    """Conditions of :func:`axis_conditions` where axes have values."""
    known = {axis_symbol(number): value for number, value in values.items()}
    return [_written(substitute(c.slack, known)) for c in conditions]


def axis_bounds(values: Sequence[Dim], whole: Sequence[Run]) -> list[Condition]:
    """That axes are among the values that they take."""
    found: list[Condition] = []
    for value, run in zip(values, whole, strict=True):
        found += [
            Condition("le", run.low, value),
            Condition("lt", value, run.high + 1),
        ]
    return found


def _written(slack: Dim) -> Condition:
    """That an expression is not negative: ``x < n`` where it is ``n - 1 - x``."""
    terms = [(by, bool(monomial)) for monomial, by in terms_of(slack)]
    number = sum(by for by, moves in terms if not moves)
    if all(by < 0 for by, moves in terms if moves):
        return Condition("lt", number - slack, number + 1)
    return Condition("le", -number, slack - number)
