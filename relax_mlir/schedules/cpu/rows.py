"""Rows: the rule for everything that has no better one.

The statements of a kernel share outer axes (the rows of a softmax, the channels of a
normalisation). One tile is one row: every statement runs on it in turn, vectorised
along the axis that most of its operands step through one element at a time, and the
buffers between the statements are one row long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    ceil_div,
    minimum,
    multiply,
    parallel_loop,
    product,
    unflatten,
)
from relax_mlir.schedules.nest import (
    Access,
    Kernel,
    Statement,
    collapse_axes,
    point_count,
)
from relax_mlir.schedules.rule import Rule, check_statements
from relax_mlir.schedules.statement_loops import emit_statement
from relax_mlir.schedules.vector_axis import vector_axis

__all__ = ["Rows"]

_CHUNKS = 4096, 1024, 16384, 65536  # points of a flat loop that are one tile
_VECTORS = 1, 2, 4  # that are computed at once
_TILE_WORK = 16384  # points per thread below which forking costs more than it gains


@dataclass(frozen=True)
class RowsConfiguration(Configuration):
    """How a kernel is written row by row.

    Attributes:
        vectors: that are computed at once.
        chunk: points of a tile, of a kernel that is one row; 0 if there are several.
    """

    rule = "Rows"
    vectors: int
    chunk: int


@dataclass(frozen=True)
class Rows(Rule[Kernel]):
    """Row by row, vectorised; takes any kernel of linalg statements."""

    configuration: RowsConfiguration | None = None

    def plan(self, kernel: Kernel) -> Kernel:
        """A kernel of which every block became a linalg statement."""
        check_statements(kernel)
        return kernel

    def configurations(self, plan: Kernel) -> list[RowsConfiguration]:
        """One to four vectors at once, and tiles of several lengths."""
        is_one = _RowEmitter(plan, self.unit.bits, None).chunked_axis() is not None
        return [
            RowsConfiguration(vectors, chunk)
            for chunk in (_CHUNKS if is_one else (0,))
            for vectors in _VECTORS
        ]

    def write(self, plan: Kernel) -> None:
        _RowEmitter(plan, self.unit.bits, self.configuration).emit()


class _RowEmitter:
    def __init__(
        self,
        kernel: Kernel,
        vector_bits: int,
        configuration: RowsConfiguration | None,
    ) -> None:
        if len(kernel.statements) == 1:
            kernel = replace(kernel, statements=[collapse_axes(kernel.statements[0])])
        self.kernel = kernel
        self.vector_bits = vector_bits
        self.made = configuration or RowsConfiguration(_VECTORS[0], _CHUNKS[0])
        self.depth = _shared_depth(kernel, vector_bits)
        self.scratch: dict[ir.Value, ir.Value] = {}

    def emit(self) -> None:
        first = self.kernel.statements[0]
        axis = self.chunked_axis()
        if axis is not None:
            self._emit_chunks(first, axis)
            return
        rows = list(first.extents[: self.depth])
        work = sum(point_count(s.extents[self.depth :]) for s in self.kernel.statements)

        def tile(number: ir.Value) -> None:
            points = unflatten(number, rows)
            self._alloc_scratch()
            for statement in self.kernel.statements:
                self._emit_statement(statement, points)

        parallel_loop(product(rows), tile, grain=max(1, _TILE_WORK // max(1, work)))

    def chunked_axis(self) -> int | None:
        """The vector axis of a kernel that is one row of one statement, if it has one."""
        statement, *others = self.kernel.statements
        rows = statement.extents[: self.depth]
        if others or not all(isinstance(r, int) and r == 1 for r in rows):
            return None
        axis = vector_axis(statement, self.vector_bits)
        is_last = axis == self.depth and statement.kinds[axis] == "S"
        return axis if is_last else None

    def _emit_chunks(self, statement: Statement, axis: int) -> None:
        """Cut the vector axis into tiles."""
        extent, chunk = statement.extents[axis], self.made.chunk

        def tile(number: ir.Value) -> None:
            begin = multiply(number, chunk)
            end = minimum(add(begin, chunk), extent)
            self._alloc_scratch()
            rows: list[Extent] = [0] * self.depth
            self._emit_statement(statement, rows, {axis: (begin, end)})

        per_point = point_count(statement.extents[axis + 1 :])
        grain = max(1, _TILE_WORK // (chunk * max(1, per_point)))
        parallel_loop(ceil_div(extent, chunk), tile, grain=grain)

    def _alloc_scratch(self) -> None:
        self.scratch = {}
        for buffer in self.kernel.temporaries:
            type_ = buffer.type
            sizes = iter(list(buffer.owner.operands))
            shape = [s if s >= 0 else next(sizes) for s in type_.shape]
            self.scratch[buffer] = alloc(shape[self.depth :], type_.element_type)

    def _relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Buffers between statements lie in the row's scratch."""
        if buffer in self.scratch:
            return self.scratch[buffer], where[self.depth :]
        return buffer, where

    def _emit_statement(
        self,
        statement: Statement,
        rows: Sequence[Extent],
        limits: "dict[int, tuple[Extent, Extent]] | None" = None,
    ) -> None:
        places = rows, self._relocate, self.vector_bits, limits
        emit_statement(statement, *places, vectors=self.made.vectors)


def _shared_depth(kernel: Kernel, vector_bits: int) -> int:
    """How many leading axes all statements share, so that a tile is one point of them.

    What computes less than the rest, such as the one division of a row's sum, is
    vectorised along the rows where several make a tile; where that would be all of them,
    it is scalar, so that every row is a tile.
    """
    depth = _depth(
        kernel, [_leading_spatial(s, vector_bits) for s in kernel.statements]
    )
    if any(e != 1 for e in kernel.statements[0].extents[:depth]):
        return depth
    counts = [point_count(s.extents) for s in kernel.statements]
    limits = [
        _leading_spatial(s, vector_bits) if count == max(counts) else _spatial(s)
        for s, count in zip(kernel.statements, counts, strict=True)
    ]
    return _depth(kernel, limits)


def _depth(kernel: Kernel, limits: Sequence[int]) -> int:
    """The most that the limits of all statements and the buffers between them allow."""
    first = kernel.statements[0]
    depth = min(limits)
    for s in kernel.statements:
        while depth and not all(
            a == b
            for a, b in zip(s.extents[:depth], first.extents[:depth], strict=True)
        ):
            depth -= 1
    written = kernel.written
    for s in kernel.statements:
        for access in s.accesses:
            while depth and access.buffer in written and not _is_row(access, depth):
                depth -= 1
        if depth and s.read_within.intersection(written):
            return 0  # at a computed place, which may be in another row
    return depth


def _spatial(statement: Statement) -> int:
    """How many axes there are before those of a sum."""
    return len(statement.kinds.rstrip("R"))


def _leading_spatial(statement: Statement, vector_bits: int) -> int:
    """Leading spatial axes, without the one that is to be vectorised."""
    axis = vector_axis(statement, vector_bits)
    return _spatial(statement) if axis is None else min(axis, _spatial(statement))


def _is_row(access: Access, depth: int) -> bool:
    return (
        all(
            access.forms[i].single_axis == i
            for i in range(min(depth, len(access.forms)))
        )
        and len(access.forms) >= depth
    )
