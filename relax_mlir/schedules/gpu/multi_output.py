"""MultiOutput rule: independent statements (concat, several results) in one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from mlir import ir

from relax_mlir.analysis.index_maps import (
    IndexForm,
    OffsetIndex,
    TiledIndex,
    size_expressions,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.schedules.builder import IndexLike
from relax_mlir.schedules.gpu.grid import launch_grids
from relax_mlir.schedules.gpu.pointwise import (
    PointwiseKernel,
    PointwisePlan,
    plan_pointwise,
    with_scalar_fallback,
)
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.rule import NotApplicable, check_statements
from relax_mlir.symbolic.bounds import is_known_le

__all__ = ["MultiOutput"]

_IndexRange: TypeAlias = tuple[Dim, Dim]


class MultiOutput(GpuRule[list[PointwisePlan]]):
    """Independent pointwise statements, fused horizontally: one launch, blocks for each."""

    def plan(self, kernel: Kernel) -> list[PointwisePlan]:
        """Matches pointwise statements that write disjoint elements and do not depend."""
        check_statements(kernel)
        if len(kernel.statements) == 1:
            raise NotApplicable("it has one statement")
        dims = size_expressions(kernel.function)
        for pair in combinations(kernel.statements, 2):
            if not _write_disjoint(*pair, dims):
                raise NotApplicable("its statements may write the same element")
        if any(s.is_reduction for s in kernel.statements):
            raise NotApplicable("it has a reduction")
        read = {a.buffer for s in kernel.statements for a in s.inputs}
        read.update(*(s.loaded_buffers for s in kernel.statements))
        if read & kernel.written:
            raise NotApplicable("a statement depends on another one")
        return [
            plan_pointwise(replace(kernel, statements=[statement]))
            for statement in kernel.statements
        ]

    def write(self, plan: list[PointwisePlan]) -> None:
        scalar = [replace(part, lanes=1) for part in plan]
        with_scalar_fallback(lambda: _write(plan), lambda: _write(scalar))


def _write(plans: Sequence[PointwisePlan]) -> None:
    launch_grids([PointwiseKernel(plan).grid() for plan in plans])


def _write_disjoint(
    lhs: Statement, rhs: Statement, dims: Mapping[ir.Value, Dim]
) -> bool:
    """Whether two statements provably write disjoint elements."""
    return all(
        a.buffer != b.buffer
        or _have_disjoint_range(
            _index_ranges(lhs, a, dims), _index_ranges(rhs, b, dims)
        )
        for a in lhs.outputs
        for b in rhs.outputs
    )


def _have_disjoint_range(
    lhs: Sequence[_IndexRange | None], rhs: Sequence[_IndexRange | None]
) -> bool:
    """Whether two accesses have disjoint index ranges along some dimension."""
    for left, right in zip(lhs, rhs, strict=True):
        if left is None or right is None:
            continue
        if is_known_le(left[1], right[0]) or is_known_le(right[1], left[0]):
            return True
    return False


def _index_ranges(
    statement: Statement, access: Access, dims: Mapping[ir.Value, Dim]
) -> list[_IndexRange | None]:
    """The half-open index range of an access along each dimension; None if unknown."""
    return [_index_range(form, statement.extents, dims) for form in access.forms]


def _index_range(
    form: IndexForm, extents: Sequence[IndexLike], dims: Mapping[ir.Value, Dim]
) -> _IndexRange | None:
    if isinstance(form, TiledIndex) or any(c < 0 for c in form.coefficients.values()):
        return None
    begin = _dim(form.by, dims) if isinstance(form, OffsetIndex) else 0
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


def _dim(size: IndexLike, dims: Mapping[ir.Value, Dim]) -> Dim | None:
    return size if isinstance(size, int) else dims.get(size)
