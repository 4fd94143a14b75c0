"""Parts: statements that write different parts of a result, or several results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from relax_mlir.indexing import Linear
from relax_mlir.schedules.gpu.grid import launch_grids
from relax_mlir.schedules.gpu.points import (
    Points,
    PointsPlan,
    or_one_by_one,
    plan_points,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import Refusal, check_statements

__all__ = ["Parts"]


class Parts(GpuRule[list[PointsPlan]]):
    """One launch, of which each statement has blocks of its own."""

    def plan(self, kernel: Kernel) -> list[PointsPlan]:
        """Statements without sums that write different elements, and read no others'."""
        check_statements(kernel)
        if len(kernel.statements) == 1:
            raise Refusal("it has one statement")
        for pair in combinations(kernel.statements, 2):
            if not _are_apart(*pair):
                raise Refusal("its statements may write the same element")
        if any(s.is_reduction for s in kernel.statements):
            raise Refusal("it has a sum")
        read = {a.buffer for s in kernel.statements for a in s.inputs}
        read.update(*(s.read_within for s in kernel.statements))
        if read & kernel.written:
            raise Refusal("a statement reads what another one computes")
        return [
            plan_points(replace(kernel, statements=[statement]))
            for statement in kernel.statements
        ]

    def write(self, plan: list[PointsPlan]) -> None:
        scalar = [replace(part, lanes=1) for part in plan]
        or_one_by_one(lambda: _write(plan), lambda: _write(scalar))


def _write(plans: Sequence[PointsPlan]) -> None:
    launch_grids([Points(plan).grid() for plan in plans])


def _are_apart(one: Statement, other: Statement) -> bool:
    """Whether two statements surely write different elements."""
    return all(
        a.buffer != b.buffer or _are_disjoint(one, a, other, b)
        for a in one.outputs
        for b in other.outputs
    )


def _are_disjoint(one: Statement, a: Access, other: Statement, b: Access) -> bool:
    """Whether two accesses are to different ranges of some dimension."""
    for form, theirs in zip(a.forms, b.forms, strict=True):
        mine, others = _range(one, form), _range(other, theirs)
        if mine and others and (mine[1] <= others[0] or others[1] <= mine[0]):
            return True
    return False


def _range(statement: Statement, form: object) -> tuple[int, int] | None:
    """The indices that a form reaches, from one to before another; None if not known."""
    if not isinstance(form, Linear) or any(c < 0 for c in form.coefficients.values()):
        return None
    end = form.constant + 1
    for axis, factor in form.coefficients.items():
        extent = statement.extents[axis]
        if not isinstance(extent, int):
            return None
        end += factor * (extent - 1)
    return form.constant, end
