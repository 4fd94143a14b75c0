"""Parts: statements that write different parts of a result, or several results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from mlir import ir

from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.shapes import Dim
from relax_mlir.indexing import Form, Part, Shifted, dims_in
from relax_mlir.schedules.emit import Extent
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

_Span: TypeAlias = tuple[Dim, Dim]


class Parts(GpuRule[list[PointsPlan]]):
    """One launch, of which each statement has blocks of its own."""

    def plan(self, kernel: Kernel) -> list[PointsPlan]:
        """Statements without sums that write different elements, and read no others'."""
        check_statements(kernel)
        if len(kernel.statements) == 1:
            raise Refusal("it has one statement")
        dims = dims_in(kernel.function)
        for pair in combinations(kernel.statements, 2):
            if not _are_apart(*pair, dims):
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


def _are_apart(one: Statement, other: Statement, dims: Mapping[ir.Value, Dim]) -> bool:
    """Whether two statements surely write different elements."""
    return all(
        a.buffer != b.buffer
        or _are_disjoint(_spans(one, a, dims), _spans(other, b, dims))
        for a in one.outputs
        for b in other.outputs
    )


def _are_disjoint(one: Sequence[_Span | None], other: Sequence[_Span | None]) -> bool:
    """Whether two accesses are to different ranges of some dimension."""
    for mine, theirs in zip(one, other, strict=True):
        if mine is None or theirs is None:
            continue
        if is_known_le(mine[1], theirs[0]) or is_known_le(theirs[1], mine[0]):
            return True
    return False


def _spans(
    statement: Statement, access: Access, dims: Mapping[ir.Value, Dim]
) -> list[_Span | None]:
    """The indices of each dimension, from one to before another; None if not known."""
    return [_span(form, statement.extents, dims) for form in access.forms]


def _span(
    form: Form, extents: Sequence[Extent], dims: Mapping[ir.Value, Dim]
) -> _Span | None:
    if isinstance(form, Part) or any(c < 0 for c in form.coefficients.values()):
        return None
    begin = _dim(form.by, dims) if isinstance(form, Shifted) else 0
    if begin is None:
        return None
    begin += form.constant
    end = begin + 1
    for axis, factor in form.coefficients.items():
        extent = _dim(extents[axis], dims)
        if extent is None:
            return None
        end += factor * (extent - 1)
    return begin, end


def _dim(size: Extent, dims: Mapping[ir.Value, Dim]) -> Dim | None:
    return size if isinstance(size, int) else dims.get(size)
