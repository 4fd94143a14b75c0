"""Rows: the rule for everything that has no better one.

The statements of a kernel share outer axes (the rows of a softmax, the channels of a
normalisation). One tile is one row: every statement runs on it in turn, vectorised
along the axis that most of its operands step through one element at a time, and the
buffers between the statements are one row long.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.rewriting import erase
from relax_mlir.schedules.cpu.statement_loops import StatementLoops
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
from relax_mlir.schedules.rule import VectorUnit
from relax_mlir.schedules.vectorize_body import NotVectorizableError

__all__ = ["Rows"]

_CHUNK = 4096  # points of a flat loop that are worth one tile
_TILE_WORK = 16384  # points per thread below which forking costs more than it gains


@dataclass(frozen=True)
class Rows:
    """Row by row, vectorised; takes any kernel of linalg statements.

    Attributes:
        unit: the machine's vectors.
    """

    unit: VectorUnit

    def matches(self, kernel: Kernel) -> bool:
        """Whether every block became a linalg statement."""
        return not kernel.has_loops and bool(kernel.statements)

    def emit(self, kernel: Kernel) -> None:
        """Write the loops at the insertion point."""
        _RowEmitter(kernel, self.unit.bits).emit()


class _RowEmitter:
    def __init__(self, kernel: Kernel, vector_bits: int) -> None:
        if len(kernel.statements) == 1:
            kernel.statements[0] = collapse_axes(kernel.statements[0])
        self.kernel = kernel
        self.vector_bits = vector_bits
        self.depth = _shared_depth(kernel, vector_bits)
        self.scratch: dict[ir.Value, ir.Value] = {}

    def emit(self) -> None:
        first = self.kernel.statements[0]
        rows = list(first.extents[: self.depth])
        is_flat = all(isinstance(r, int) and r == 1 for r in rows)
        if is_flat and len(self.kernel.statements) == 1 and self._emit_chunks(first):
            return
        work = sum(point_count(s.extents[self.depth :]) for s in self.kernel.statements)

        def tile(number: ir.Value) -> None:
            points = unflatten(number, rows)
            self._alloc_scratch()
            for statement in self.kernel.statements:
                self._emit_statement(statement, points)

        parallel_loop(product(rows), tile, grain=max(1, _TILE_WORK // max(1, work)))

    def _emit_chunks(self, statement: Statement) -> bool:
        """Cut the vector axis of a flat statement into tiles; False if it has none."""
        axis = _vector_axis(statement, self.vector_bits)
        if axis is None or statement.kinds[axis] != "S" or axis != self.depth:
            return False
        extent = statement.extents[axis]

        def tile(number: ir.Value) -> None:
            begin = multiply(number, _CHUNK)
            end = minimum(add(begin, _CHUNK), extent)
            self._alloc_scratch()
            rows: list[Extent] = [0] * self.depth
            self._emit_statement(statement, rows, {axis: (begin, end)})

        per_point = point_count(statement.extents[axis + 1 :])
        grain = max(1, _TILE_WORK // (_CHUNK * max(1, per_point)))
        parallel_loop(ceil_div(extent, _CHUNK), tile, grain=grain)
        return True

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
        loops = StatementLoops(statement, rows, self._relocate, limits or {})
        axis = _vector_axis(statement, self.vector_bits)
        if axis is not None and axis >= self.depth:
            before = list(ir.InsertionPoint.current.block.operations)
            try:
                loops.emit(axis, _lanes(statement, self.vector_bits))
                return
            except NotVectorizableError:
                _erase_after(before)
        loops.emit(None, 1)


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
    for s in kernel.statements:
        for access in s.accesses:
            is_shared = access.buffer in kernel.temporaries or access in s.outputs
            while depth and is_shared and not _is_row(access, depth):
                depth -= 1
        if depth and _reads_temporary_in_body(s, kernel):
            return 0
    return depth


def _spatial(statement: Statement) -> int:
    """How many axes there are before those of a sum."""
    return len(statement.kinds.rstrip("R"))


def _leading_spatial(statement: Statement, vector_bits: int) -> int:
    """Leading spatial axes, without the one that is to be vectorised."""
    axis = _vector_axis(statement, vector_bits)
    return _spatial(statement) if axis is None else min(axis, _spatial(statement))


def _is_row(access: Access, depth: int) -> bool:
    return (
        all(
            access.forms[i].single_axis == i
            for i in range(min(depth, len(access.forms)))
        )
        and len(access.forms) >= depth
    )


def _reads_temporary_in_body(statement: Statement, kernel: Kernel) -> bool:
    return any(
        o.operation.name == "memref.load" and o.operands[0] in kernel.temporaries
        for o in statement.body.operations
    )


def _vector_axis(statement: Statement, vector_bits: int) -> int | None:
    """The axis along which vectors cost least; None if scalars do."""
    lanes = _lanes(statement, vector_bits)
    best, best_cost = None, float(lanes * len(statement.accesses))
    for axis in range(len(statement.kinds)):
        cost = _vector_cost(statement, axis, lanes)
        if cost is not None and cost <= best_cost:
            best, best_cost = axis, cost
    return best


def _lanes(statement: Statement, vector_bits: int) -> int:
    """How many points fit a vector, by the widest type that is read or written."""
    types = [a.buffer.type.element_type for a in statement.accesses]
    return vector_bits // max([32, *(t.width for t in types)])


def _vector_cost(statement: Statement, axis: int, lanes: int) -> float | None:
    """Rough cost of one vector of points along ``axis``, in plain loads.

    None where it cannot be: results must lie side by side, or be one per vector.
    """
    out = [a.stride_of(axis) for a in statement.outputs]
    if out != ([1] if statement.kinds[axis] == "S" else [0]) * len(out):
        return None
    cost = 0.1 if statement.kinds[axis] == "R" else 0.0  # lanes combine at the end
    for access in statement.accesses:
        cost += _STRIDE_COSTS.get(access.stride_of(axis), 0.9 * lanes)
    extent = statement.extents[axis]
    if isinstance(extent, int):
        cost *= -(-extent // lanes) * lanes / max(1, extent)
    return cost


_STRIDE_COSTS = {0: 0.3, 1: 1.0, 2: 3.0}


def _erase_after(before: Sequence[ir.OpView]) -> None:
    """Undo what was written to the current block since ``before`` was taken."""
    block = ir.InsertionPoint.current.block
    for operation in reversed(list(block.operations)[len(before) :]):
        erase(operation)
