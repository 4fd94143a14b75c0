"""How the statements of a kernel share rows, which threads walk together."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.emit import Extent, is_one
from relax_mlir.schedules.gpu.launch import PROCESSORS, WARP
from relax_mlir.schedules.gpu.points import lanes_along
from relax_mlir.schedules.nest import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import Refusal, check_statements
from relax_mlir.schedules.statement_loops import combinations_of

__all__ = ["RowPlan", "inner_axes", "plan_rows"]

_THREADS = 256  # of a row whose length is not known
_MOST_THREADS = 1024  # that share a row
_KEPT_WORDS = 32  # of registers, for what a thread keeps of a row
_FEW_ROWS = 1024  # that are too few for a thread each
_WARP_ROW = 1024  # elements; a longer row is worth several warps
_ENOUGH_THREADS = PROCESSORS * 1024  # of all rows; for fewer, more share each


@dataclass(frozen=True)
class RowPlan:
    """How the statements of a kernel share a row.

    Attributes:
        statements: in order.
        rows: extents of the axes that they share.
        domain: extents of a row.
        scalars: buffers between them of one element a row.
        kept: those as long as a row, of which each thread keeps its own part.
        lanes: neighbours that a thread takes at once.
        ahead: buffers that are asked for before all else.
    """

    statements: tuple[Statement, ...]
    rows: tuple[Extent, ...]
    domain: tuple[Extent, ...]
    scalars: tuple[ir.Value, ...]
    kept: tuple[ir.Value, ...]
    lanes: int
    ahead: tuple[ir.Value, ...] = ()

    @property
    def threads(self) -> int:
        """How many share a row."""
        elements, rows = (_known_count(e) for e in (self.domain, self.rows))
        if elements is None:
            return _THREADS
        threads = WARP
        if elements > _WARP_ROW:
            wanted = elements // (4 * self.lanes)
            threads = max(WARP, 1 << (wanted - 1).bit_length())
        if rows is not None:
            while rows * threads < _ENOUGH_THREADS and threads * self.lanes < elements:
                threads *= 2
        threads = min(_MOST_THREADS, threads)
        # As many warps as have work in every turn.
        pieces = max(1, elements // self.lanes)
        turns = -(-pieces // threads)
        return WARP * -(-pieces // (turns * WARP))

    @property
    def turns(self) -> int | None:
        """How often a thread takes its neighbours of a row; None for too many to keep."""
        elements = _known_count(self.domain)
        if elements is None:
            return None
        turns = -(-(elements // self.lanes) // self.threads)
        widths = [b.type.element_type.width for b in self.kept]
        words = sum(max(1, width // 32) for width in widths)
        # The more threads a block has, the fewer registers each of them.
        most = _KEPT_WORDS * (1 if self.threads > _MOST_THREADS // 2 else 2)
        return turns if turns * self.lanes * words <= most else None


def _known_count(extents: Sequence[Extent]) -> int | None:
    """How many points there are, if it is known."""
    return math.prod(extents) if all(isinstance(e, int) for e in extents) else None


def plan_rows(kernel: Kernel) -> RowPlan:
    """How a kernel's statements with the same outer axes share rows; one sums up the rest.

    Raises:
        Refusal: they do not, or rows are better walked in another way.
    """
    check_statements(kernel)
    statements = tuple(kernel.statements)
    total = next((s for s in statements if s.is_reduction), None)
    if total is None:
        raise Refusal("it has no sum")
    depth = _depth(total)
    rows = total.extents[:depth]
    domain = tuple(total.extents[axis] for axis in inner_axes(total, depth))
    if not domain:
        raise Refusal("its sum has one term")
    for statement in statements:
        _check(statement, rows, domain, kernel)
    scalars, kept = _sorted_temporaries(kernel, statements, depth)
    _check_sizes(statements, rows, domain)
    lanes = _lanes(statements, domain, depth, kernel.temporaries)
    plan = RowPlan(statements, rows, domain, scalars, kept, lanes)
    # It is written one by one where vectors cannot be.
    if kept and None in (plan.turns, replace(plan, lanes=1).turns):
        raise Refusal("its rows are longer than what threads can keep of them")
    return plan


def _depth(total: Statement) -> int:
    """How many axes tell the rows of a sum: those before it, without ones at the end."""
    depth = len(total.kinds.rstrip("R"))
    while depth and is_one(total.extents[depth - 1]):
        depth -= 1
    return depth


def inner_axes(statement: Statement, depth: int) -> list[int]:
    """The axes along a row, without those of one point."""
    axes = range(depth, len(statement.kinds))
    return [axis for axis in axes if not is_one(statement.extents[axis])]


def _check(
    statement: Statement,
    rows: Sequence[Extent],
    domain: Sequence[Extent],
    kernel: Kernel,
) -> None:
    """Refuse what does not walk along rows.

    Raises:
        Refusal: it does not.
    """
    depth = len(rows)
    inner = inner_axes(statement, depth)
    kinds = {statement.kinds[axis] for axis in inner}
    if statement.extents[:depth] != rows or "R" in statement.kinds[:depth]:
        raise Refusal("its statements do not share the axes of rows")
    is_whole = tuple(statement.extents[axis] for axis in inner) == domain
    if inner and (not is_whole or len(kinds) > 1):
        raise Refusal("its statements do not walk along the same rows")
    if statement.is_reduction:
        if not is_whole:
            raise Refusal("its sums are not over the same rows")
        if combinations_of(statement) is None:
            raise Refusal("the order of its sum may matter")
    results = kernel.written.difference(kernel.temporaries)
    read = {access.buffer for access in statement.inputs}
    if read & results or statement.read_within & kernel.written:
        raise Refusal("a statement reads what others of its threads have written")


def _check_sizes(
    statements: Sequence[Statement], rows: Sequence[Extent], domain: Sequence[Extent]
) -> None:
    """Refuse what a thread for each row does better.

    Raises:
        Refusal: rows are short, or there are many whose neighbours lie side by side.
    """
    if point_count(domain) < WARP:
        if point_count(rows) < _FEW_ROWS:
            return
        raise Refusal("its rows are shorter than a warp")
    walked = [
        access.stride_of(axis)
        for s in statements
        for axis in inner_axes(s, len(rows))[-1:]
        for access in s.inputs
    ]
    if 1 not in walked:
        raise Refusal("the neighbours along its rows lie apart")


def _sorted_temporaries(
    kernel: Kernel, statements: Sequence[Statement], depth: int
) -> tuple[tuple[ir.Value, ...], tuple[ir.Value, ...]]:
    """The buffers between statements: of one element a row, and as long as a row.

    Raises:
        Refusal: one is neither, or is not read where it was written.
    """
    scalars: list[ir.Value] = []
    kept: list[ir.Value] = []
    for buffer in kernel.temporaries:
        accesses = [
            (s, a) for s in statements for a in s.accesses if a.buffer == buffer
        ]
        if all(_is_at(s, a, depth, ()) for s, a in accesses):
            scalars.append(buffer)
        elif all(_is_at(s, a, depth, inner_axes(s, depth)) for s, a in accesses):
            kept.append(buffer)
        else:
            raise Refusal("a statement reads what another place of the row computes")
    return tuple(scalars), tuple(kept)


def _is_at(
    statement: Statement, access: Access, depth: int, inner: Sequence[int]
) -> bool:
    """Whether an access is to the element that the row and some axes tell, no other."""
    rows = [axis for axis in range(depth) if not is_one(statement.extents[axis])]
    return access.told_axes == [*rows, *inner]


def _lanes(
    statements: Sequence[Statement],
    domain: Sequence[Extent],
    depth: int,
    between: Collection[ir.Value],
) -> int:
    """How many neighbours along the last axis a thread takes at once.

    Args:
        between: buffers that are no memory.
    """
    length = domain[-1]
    accesses = [
        (access, axis)
        for s in statements
        for axis in inner_axes(s, depth)[-1:]
        for access in s.accesses
    ]
    lanes = lanes_along(accesses, between)
    return math.gcd(length, lanes) if isinstance(length, int) else 1
