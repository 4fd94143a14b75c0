"""What the predicate of a block says of its axes, whatever loops they are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.monomials import terms_of
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import tree
from relax_mlir.tir.schedule.indices import Indices, simplify
from relax_mlir.tir.schedule.new_axes import axis_symbol
from relax_mlir.tir.schedule.predicates import Condition, block_conditions
from relax_mlir.tir.schedule.regions import Run
from relax_mlir.tir.schedule.state import extents_of, limits_at, loop_bounds, loop_var

__all__ = ["at_axes", "axis_bounds", "axis_conditions"]


def axis_conditions(
    block: ir.Operation, indices: Indices, where: str
) -> list[Condition]:
    """The conditions that leave out points of the axes, in symbols of their numbers.

    Conditions that keep an axis in its extent, and those that keep loops from visiting a
    point twice, leave out none.

    Raises:
        ScheduleError: the predicate says something else.
    """
    limits = limits_at(indices, tree.parent_of(block))
    values = [indices.of(value) for value in tree.bindings(block)]
    axes = [dims.symbol(axis_symbol(number)) for number in range(len(values))]
    loops = {indices.symbol(loop_var(loop)) for loop in tree.enclosing_loops(block)}
    starts, extents = tree.axis_starts(block), extents_of(indices, block)
    found: list[Condition] = []
    for condition in block_conditions(block, indices):
        if condition.value is not None:
            raise _unclear(block, where)
        slack = _in_axes(condition.slack, values, axes, loops)
        if slack is None:
            if _are_as_many(block, extents, indices):
                raise _unclear(block, where)
            continue
        ends = [
            end
            for axis, start, extent in zip(axes, starts, extents, strict=True)
            for end in (axis - start, start + extent - 1 - axis)
        ]
        rests = [simplify(slack - end, limits) for end in ends]
        if not any(isinstance(rest, int) and rest >= 0 for rest in rests):
            found.append(Condition("le", 0, slack))
    return found


def _unclear(block: ir.Operation, where: str) -> ScheduleError:
    return ScheduleError(
        f"{where}: the predicate of {tree.describe(block)} says something else than which "
        "values its axes have: expected comparisons of those alone"
    )


def _are_as_many(block: ir.Operation, extents: Sequence[Dim], indices: Indices) -> bool:
    """Whether loops visit a point once each, so that every condition leaves out some."""
    loops = [loop_bounds(indices, loop)[1] for loop in tree.enclosing_loops(block)]
    return math.prod(loops) == math.prod(extents)


def _in_axes(
    dim: Dim, values: Sequence[Dim], axes: Sequence[Dim], loops: set[str]
) -> Dim | None:
    """An expression of loops as one of axes, where it is one of them or of their loops."""
    for value, axis in zip(values, axes, strict=True):
        for sign in (1, -1):
            rest = dim - sign * value
            if not loops & set(symbols_of(rest)) and loops & set(symbols_of(value)):
                return rest + sign * axis
    plain = {
        name: axis
        for value, axis in zip(values, axes, strict=True)
        for name in loops
        if value == dims.symbol(name)
    }
    found = substitute(dim, plain)
    return None if loops & set(symbols_of(found)) else found


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
