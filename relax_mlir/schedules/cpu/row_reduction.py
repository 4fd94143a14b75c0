"""Row-wise rule: fused loops over shared outer axes, for all kernels without a better rule.

The statements of a kernel share outer axes (the rows of a softmax, the channels of a
normalization). A tile is one row: all statements run on it in turn, each vectorized along
its cheapest axis, and temporaries shrink to one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    alloc,
    ceil_div,
    minimum,
    multiply,
    parallel_loop,
    product,
    unflatten,
)
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.kernel_view import (
    Access,
    Kernel,
    Statement,
    collapse_axes,
    point_count,
)
from relax_mlir.schedules.rule import CpuRule, check_statements
from relax_mlir.schedules.statement_loops import emit_statement
from relax_mlir.schedules.vector_axis import vector_axis

__all__ = ["RowWise"]

_CHUNKS = 4096, 1024, 16384, 65536  # points per tile of a one-dimensional kernel
_VECTORS = 1, 2, 4  # unroll factors of the vector axis
_TILE_WORK = 16384  # points per thread that pay for starting it


@dataclass(frozen=True)
class RowWiseConfiguration(Configuration):
    """Tunable parameters of a row-wise kernel.

    Attributes:
        vectors: unroll factor of the vector axis.
        chunk: points per tile of a one-dimensional kernel; 0 for other kernels.
    """

    rule = "RowWise"
    vectors: int
    chunk: int


@dataclass(frozen=True)
class RowWise(CpuRule[Kernel]):
    """Vectorized row-wise loops; matches any kernel of linalg statements."""

    configuration: RowWiseConfiguration | None = None

    def plan(self, kernel: Kernel) -> Kernel:
        """Match a kernel that consists of linalg statements."""
        check_statements(kernel)
        return kernel

    def configurations(self, plan: Kernel) -> list[RowWiseConfiguration]:
        """Unroll factors 1 to 4, by tiles of several lengths."""
        is_one = (
            _RowEmitter(plan, self.unit.vector_bits, None).chunked_axis() is not None
        )
        return [
            RowWiseConfiguration(vectors, chunk)
            for chunk in (_CHUNKS if is_one else (0,))
            for vectors in _VECTORS
        ]

    def write(self, plan: Kernel) -> None:
        _RowEmitter(plan, self.unit.vector_bits, self.configuration).emit()


class _RowEmitter:
    """Emits the loops of one row-wise kernel."""

    def __init__(
        self,
        kernel: Kernel,
        vector_bits: int,
        configuration: RowWiseConfiguration | None,
    ) -> None:
        if len(kernel.statements) == 1 and not kernel.temporaries:
            kernel = replace(kernel, statements=[collapse_axes(kernel.statements[0])])
        self.kernel = kernel
        self.vector_bits = vector_bits
        self.configuration = configuration or RowWiseConfiguration(
            _VECTORS[0], _CHUNKS[0]
        )
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
        """The vector axis of a one-dimensional kernel; None for other kernels."""
        statement, *others = self.kernel.statements
        rows = statement.extents[: self.depth]
        if others or not all(isinstance(r, int) and r == 1 for r in rows):
            return None
        axis = vector_axis(statement, self.vector_bits)
        is_last = axis == self.depth and statement.kinds[axis] == "S"
        return axis if is_last else None

    def _emit_chunks(self, statement: Statement, axis: int) -> None:
        """Emit a one-dimensional kernel, with its vector axis split into tiles."""
        extent, chunk = statement.extents[axis], self.configuration.chunk

        def tile(number: ir.Value) -> None:
            begin = multiply(number, chunk)
            end = minimum(add(begin, chunk), extent)
            self._alloc_scratch()
            rows: list[IndexLike] = [0] * self.depth
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
        self, buffer: ir.Value, indices: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Replace a temporary by the scratch of the row."""
        if buffer in self.scratch:
            return self.scratch[buffer], indices[self.depth :]
        return buffer, indices

    def _emit_statement(
        self,
        statement: Statement,
        rows: Sequence[IndexLike],
        limits: dict[int, tuple[IndexLike, IndexLike]] | None = None,
    ) -> None:
        emit_statement(
            statement,
            rows,
            self._relocate,
            self.vector_bits,
            limits,
            vectors=self.configuration.vectors,
        )


def _shared_depth(kernel: Kernel, vector_bits: int) -> int:
    """Number of leading axes that all statements share: a tile is one point of these.

    Statements on row totals, such as a softmax's division, have the row as their cheapest
    vector axis, which cannot be shared then. If this would leave one tile only, they are
    made scalar.
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
    """The depth that all statements, and the temporaries between them, allow."""
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
        if depth and s.loaded_buffers.intersection(written):
            return 0  # a computed index may be in another row
    return depth


def _spatial(statement: Statement) -> int:
    """Number of axes before the trailing reduction axes."""
    return len(statement.kinds.rstrip("R"))


def _leading_spatial(statement: Statement, vector_bits: int) -> int:
    """Number of leading parallel axes before the vector axis."""
    axis = vector_axis(statement, vector_bits)
    return _spatial(statement) if axis is None else min(axis, _spatial(statement))


def _is_row(access: Access, depth: int) -> bool:
    return (
        all(
            access.forms[i].single_variable == i
            for i in range(min(depth, len(access.forms)))
        )
        and len(access.forms) >= depth
    )
