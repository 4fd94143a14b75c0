"""Pointwise kernels: fused statements over one domain, vectorized per thread.

Temporaries between the statements stay in registers of the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    for_loop,
    index,
    is_one,
    multiply,
)
from relax_mlir.schedules.gpu.grid import Grid, launch_grids
from relax_mlir.schedules.gpu.launch import (
    ACCESS_BYTES,
    SM_COUNT,
    alloc_private,
    if_less,
)
from relax_mlir.schedules.kernel_view import (
    Access,
    Kernel,
    Statement,
    collapse_axes,
    point_count,
)
from relax_mlir.schedules.rule import NotApplicable, check_statements
from relax_mlir.schedules.statement_loops import StatementLoops
from relax_mlir.schedules.vectorize_body import NotVectorizableError

__all__ = [
    "PointwiseKernel",
    "PointwisePlan",
    "plan_pointwise",
    "vector_width",
    "with_scalar_fallback",
    "write_pointwise",
]

_LANES, _MAX_LANES = 4, 8  # vector width on small domains, and on large ones
_ENOUGH_THREADS = SM_COUNT * 1024  # that a large domain keeps busy at the full width


@dataclass(frozen=True)
class PointwisePlan:
    """A pointwise kernel.

    Attributes:
        statements: all with the same spatial axes, which come first.
        temporaries: buffers between them.
        extents: of the spatial axes.
        axis: the vectorized axis, along which results are contiguous; lanes: vector width.
    """

    statements: tuple[Statement, ...]
    temporaries: tuple[ir.Value, ...]
    extents: tuple[IndexLike, ...]
    axis: int
    lanes: int


def plan_pointwise(kernel: Kernel) -> PointwisePlan:
    """Matches a pointwise kernel.

    Raises:
        NotApplicable: its statements have different domains, or its results are contiguous along
            no axis.
    """
    check_statements(kernel)
    statements = tuple(kernel.statements)
    if len(statements) == 1:
        statements = (collapse_axes(statements[0]),)
    depth = len(statements[0].kinds.rstrip("R"))
    extents = statements[0].extents[:depth]
    for statement in statements:
        has_same_axes = statement.kinds.rstrip("R") == "S" * depth
        if not has_same_axes or statement.extents[:depth] != extents:
            raise NotApplicable("its statements have different spatial axes")
        for access in statement.accesses:
            is_temporary = len(statements) > 1 and access.buffer in kernel.written
            if is_temporary and not _is_identity(access, extents):
                raise NotApplicable("a statement reads another point of a temporary")
        if statement.loaded_buffers & kernel.written:
            raise NotApplicable("a statement indexes a temporary by loaded values")
    axis = _contiguous_axis(statements[-1], depth)
    if axis is None:
        raise NotApplicable("its results are contiguous along no axis")
    lanes = _lanes(statements, extents, axis, kernel.temporaries)
    return PointwisePlan(statements, tuple(kernel.temporaries), extents, axis, lanes)


def vector_width(
    accesses: Iterable[tuple[Access, int]], registers: Collection[ir.Value]
) -> int:
    """Vector width of some accesses: 16 bytes of the widest element; 1 if any is strided.

    Args:
        accesses: each with its vectorized axis.
        registers: buffers that stay in registers.
    """
    strides = [(access.buffer, access.stride_of(axis)) for access, axis in accesses]
    if any(stride not in (0, 1) for _, stride in strides):
        return 1
    walked = [b for b, stride in strides if stride and b not in registers]
    widest = max([8, *(b.type.element_type.width for b in walked)])
    return min(_MAX_LANES, 8 * ACCESS_BYTES // widest)


def _lanes(
    statements: Sequence[Statement],
    extents: Sequence[IndexLike],
    axis: int,
    registers: Collection[ir.Value],
) -> int:
    """Vector width of a thread along an axis: less on small domains.

    Args:
        registers: buffers that stay in registers.
    """
    lanes = vector_width([(a, axis) for s in statements for a in s.accesses], registers)
    is_large = point_count(extents) >= lanes * _ENOUGH_THREADS
    return lanes if is_large else min(lanes, _LANES)


def _is_identity(access: Access, extents: Sequence[IndexLike]) -> bool:
    """Whether an access is an identity access: element ``p`` at point ``p``."""
    axes = [n for n, extent in enumerate(extents) if not is_one(extent)]
    return access.indexed_axes == axes


def _contiguous_axis(statement: Statement, depth: int) -> int | None:
    """The innermost axis along which all results are contiguous."""
    for axis in reversed(range(depth)):
        if all(a.stride_of(axis) == 1 for a in statement.outputs):
            return axis
    return None


def write_pointwise(plan: PointwisePlan) -> None:
    """Emits the launch: vectorized if possible, else scalar."""
    with_scalar_fallback(
        lambda: PointwiseKernel(plan).write(),
        lambda: PointwiseKernel(replace(plan, lanes=1)).write(),
    )


def with_scalar_fallback(write: Callable[[], None], scalar: Callable[[], None]) -> None:
    """Emits a vectorized launch; if its body cannot be vectorized, a scalar one instead."""
    block = ir.InsertionPoint.current.block
    before = list(own_operations(block))
    try:
        write()
    except NotVectorizableError:
        for operation in reversed(list(own_operations(block))):
            if operation not in before:
                erase(operation)
        scalar()


@dataclass
class PointwiseKernel:
    """Emitter of a pointwise kernel.

    Attributes:
        registers: private buffers that replace the temporaries.
    """

    plan: PointwisePlan
    registers: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def write(self) -> None:
        """Emits the kernel as a launch of its own."""
        launch_grids([self.grid()])

    def grid(self) -> Grid:
        """A grid with a thread for each vector of results."""
        axis, lanes = self.plan.axis, self.plan.lanes
        extents = list(self.plan.extents)
        length = extents[axis]
        extents[axis] = ceil_div(length, lanes)

        def thread(where: list[IndexLike]) -> None:
            begin = multiply(where[axis], lanes)

            def scalar_point(place: ir.Value) -> tuple[()]:
                self._at([*where[:axis], place, *where[axis + 1 :]], 1)
                return ()

            def full_vector() -> None:
                self._at([*where[:axis], begin, *where[axis + 1 :]], lanes)

            def remainder() -> None:
                for_loop(begin, length, 1, scalar_point)

            is_whole = isinstance(length, int) and length % lanes == 0
            if is_whole or lanes == 1:
                full_vector()
            else:
                if_less(add(begin, lanes - 1), length, full_vector, remainder)

        return Grid(extents, thread)

    def _at(self, where: Sequence[IndexLike], lanes: int) -> None:
        """Emits all statements for one vector of results."""
        points = dict(enumerate(where))
        self.place_registers(lanes)
        for statement in self.plan.statements:
            loops = StatementLoops(statement, points, self.relocate, {})
            loops.emit_point(self.plan.axis if lanes > 1 else None, lanes)

    def place_registers(self, lanes: int) -> None:
        """Allocates registers for the temporaries."""
        self.registers = {
            buffer: alloc_private([lanes], buffer.type.element_type)
            for buffer in self.plan.temporaries
        }

    def relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Redirects accesses to temporaries to registers."""
        if buffer in self.registers:
            return self.registers[buffer], [index(0)]
        return buffer, where
