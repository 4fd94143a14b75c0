"""Matches row-wise kernels (softmax, norms, row sums) whose statements share rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, is_one
from relax_mlir.schedules.gpu.launch import SM_COUNT, WARP_SIZE
from relax_mlir.schedules.gpu.pointwise import vector_width
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement, point_count
from relax_mlir.schedules.rule import NotApplicable, check_statements
from relax_mlir.schedules.statement_loops import combiners_of

__all__ = ["RowPlan", "inner_axes", "plan_rows"]

_THREADS = 256  # per row of dynamic length
_MAX_THREADS = 1024  # per row
_CACHED_WORDS = 32  # registers of 32 bits in which a thread caches its part of a row
_FEW_ROWS = 1024  # too few to occupy the GPU with a thread each
_WARP_ROW = 1024  # elements; longer rows get several warps
_ENOUGH_THREADS = SM_COUNT * 1024  # to occupy the GPU; else more threads share a row


@dataclass(frozen=True)
class RowPlan:
    """A row-wise kernel.

    Attributes:
        statements: in order.
        rows: extents of the outer axes, which all statements share.
        domain: extents of a row.
        scalars: temporaries of one element per row.
        cached: temporaries as long as a row; each thread caches its part in registers.
        lanes: vector width.
        prefetched: buffers that are prefetched at the start of the kernel.
    """

    statements: tuple[Statement, ...]
    rows: tuple[IndexLike, ...]
    domain: tuple[IndexLike, ...]
    scalars: tuple[ir.Value, ...]
    cached: tuple[ir.Value, ...]
    lanes: int
    prefetched: tuple[ir.Value, ...] = ()

    @property
    def threads(self) -> int:
        """Threads per row."""
        elements, rows = (_known_count(e) for e in (self.domain, self.rows))
        if elements is None:
            return _THREADS
        threads = WARP_SIZE
        if elements > _WARP_ROW:
            wanted = elements // (4 * self.lanes)
            threads = max(WARP_SIZE, 1 << (wanted - 1).bit_length())
        if rows is not None:
            while rows * threads < _ENOUGH_THREADS and threads * self.lanes < elements:
                threads *= 2
        threads = min(_MAX_THREADS, threads)
        # No more warps than have work in every iteration.
        vectors = max(1, elements // self.lanes)
        iterations = -(-vectors // threads)
        return WARP_SIZE * -(-vectors // (iterations * WARP_SIZE))

    @property
    def iterations(self) -> int | None:
        """Vectors of a row per thread; None if they do not fit in registers."""
        elements = _known_count(self.domain)
        if elements is None:
            return None
        iterations = -(-(elements // self.lanes) // self.threads)
        widths = [b.type.element_type.width for b in self.cached]
        words = sum(max(1, width // 32) for width in widths)
        # Large blocks have fewer registers per thread.
        max_words = _CACHED_WORDS * (1 if self.threads > _MAX_THREADS // 2 else 2)
        return iterations if iterations * self.lanes * words <= max_words else None


def _known_count(extents: Sequence[IndexLike]) -> int | None:
    """The number of points of a domain, if it is static."""
    return math.prod(extents) if all(isinstance(e, int) for e in extents) else None


def plan_rows(kernel: Kernel) -> RowPlan:
    """Matches statements with common outer axes (rows), at least one of which reduces a row.

    Raises:
        NotApplicable: the kernel is not row-wise, or another rule schedules it better.
    """
    check_statements(kernel)
    statements = tuple(kernel.statements)
    reduction = next((s for s in statements if s.is_reduction), None)
    if reduction is None:
        raise NotApplicable("it has no reduction")
    depth = _depth(reduction)
    rows = reduction.extents[:depth]
    domain = tuple(reduction.extents[axis] for axis in inner_axes(reduction, depth))
    if not domain:
        raise NotApplicable("its reduction has one element")
    for statement in statements:
        _check(statement, rows, domain, kernel)
    scalars, cached = _split_temporaries(kernel, statements, depth)
    _check_sizes(statements, rows, domain)
    lanes = _lanes(statements, domain, depth, kernel.temporaries)
    plan = RowPlan(statements, rows, domain, scalars, cached, lanes)
    # The scalar version, for bodies that cannot be vectorized, must fit too.
    if cached and None in (plan.iterations, replace(plan, lanes=1).iterations):
        raise NotApplicable("its rows do not fit in the registers of the threads")
    return plan


def _depth(reduction: Statement) -> int:
    """Number of row axes of a reduction: the spatial ones, without trailing unit extents."""
    depth = len(reduction.kinds.rstrip("R"))
    while depth and is_one(reduction.extents[depth - 1]):
        depth -= 1
    return depth


def inner_axes(statement: Statement, depth: int) -> list[int]:
    """The axes along a row, without those of unit extent."""
    axes = range(depth, len(statement.kinds))
    return [axis for axis in axes if not is_one(statement.extents[axis])]


def _check(
    statement: Statement,
    rows: Sequence[IndexLike],
    domain: Sequence[IndexLike],
    kernel: Kernel,
) -> None:
    """Checks that a statement iterates over the rows.

    Raises:
        NotApplicable: it does not.
    """
    depth = len(rows)
    inner = inner_axes(statement, depth)
    kinds = {statement.kinds[axis] for axis in inner}
    if statement.extents[:depth] != rows or "R" in statement.kinds[:depth]:
        raise NotApplicable("its statements have different row axes")
    covers_row = tuple(statement.extents[axis] for axis in inner) == domain
    if inner and (not covers_row or len(kinds) > 1):
        raise NotApplicable("its statements iterate over different rows")
    if statement.is_reduction:
        if not covers_row:
            raise NotApplicable("its reductions are over different rows")
        if combiners_of(statement) is None:
            raise NotApplicable("its combiner may not be reordered")
    results = kernel.written.difference(kernel.temporaries)
    read = {access.buffer for access in statement.inputs}
    if read & results or statement.loaded_buffers & kernel.written:
        raise NotApplicable("a statement reads results of other threads")


def _check_sizes(
    statements: Sequence[Statement],
    rows: Sequence[IndexLike],
    domain: Sequence[IndexLike],
) -> None:
    """Checks that several threads per row pay off.

    Raises:
        NotApplicable: rows are short and many, or not contiguous.
    """
    if point_count(domain) < WARP_SIZE:
        if point_count(rows) < _FEW_ROWS:
            return
        raise NotApplicable("its rows are shorter than a warp")
    strides = [
        access.stride_of(axis)
        for s in statements
        for axis in inner_axes(s, len(rows))[-1:]
        for access in s.inputs
    ]
    if 1 not in strides:
        raise NotApplicable("its rows are not contiguous")


def _split_temporaries(
    kernel: Kernel, statements: Sequence[Statement], depth: int
) -> tuple[tuple[ir.Value, ...], tuple[ir.Value, ...]]:
    """Splits the temporaries into those of one element per row, and those of row length.

    Raises:
        NotApplicable: one is neither, or is read at a different index than it is written.
    """
    scalars: list[ir.Value] = []
    cached: list[ir.Value] = []
    for buffer in kernel.temporaries:
        accesses = [
            (s, a) for s in statements for a in s.accesses if a.buffer == buffer
        ]
        if all(_is_indexed_by(s, a, depth, ()) for s, a in accesses):
            scalars.append(buffer)
        elif all(
            _is_indexed_by(s, a, depth, inner_axes(s, depth)) for s, a in accesses
        ):
            cached.append(buffer)
        else:
            raise NotApplicable("a statement reads another point of a row temporary")
    return tuple(scalars), tuple(cached)


def _is_indexed_by(
    statement: Statement, access: Access, depth: int, inner: Sequence[int]
) -> bool:
    """Whether an access is indexed by exactly the row axes and the given axes."""
    rows = [axis for axis in range(depth) if not is_one(statement.extents[axis])]
    return access.indexed_axes == [*rows, *inner]


def _lanes(
    statements: Sequence[Statement],
    domain: Sequence[IndexLike],
    depth: int,
    registers: Collection[ir.Value],
) -> int:
    """Vector width along the last axis.

    Args:
        registers: buffers that stay in registers.
    """
    length = domain[-1]
    accesses = [
        (access, axis)
        for s in statements
        for axis in inner_axes(s, depth)[-1:]
        for access in s.accesses
    ]
    lanes = vector_width(accesses, registers)
    return math.gcd(length, lanes) if isinstance(length, int) else 1
