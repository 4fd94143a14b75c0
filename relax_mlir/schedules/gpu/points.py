"""Kernels whose statements share their results' domain: a few neighbours a thread.

What lies between the statements stays with the thread: it becomes registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir

from relax_mlir.rewriting import erase
from relax_mlir.schedules.emit import (
    Extent,
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
    PROCESSORS,
    alloc_private,
    if_less,
)
from relax_mlir.schedules.nest import (
    Access,
    Kernel,
    Statement,
    collapse_axes,
    point_count,
)
from relax_mlir.schedules.rule import Refusal, check_statements
from relax_mlir.schedules.statement_loops import StatementLoops
from relax_mlir.schedules.vectorize_body import NotVectorizableError
from relax_mlir.traversal import own_operations

__all__ = [
    "Points",
    "PointsPlan",
    "lanes_along",
    "or_one_by_one",
    "plan_points",
    "write_points",
]

_LANES, _MOST_LANES = 4, 8  # neighbours of a thread: of few points, and of many
_ENOUGH_THREADS = PROCESSORS * 1024  # for many neighbours of each


@dataclass(frozen=True)
class PointsPlan:
    """How the statements of a kernel are written.

    Attributes:
        statements: all with the same spatial axes, which come first.
        temporaries: buffers between them.
        extents: of the spatial axes.
        axis: along which results lie side by side; lanes: neighbours of a thread.
    """

    statements: tuple[Statement, ...]
    temporaries: tuple[ir.Value, ...]
    extents: tuple[Extent, ...]
    axis: int
    lanes: int


def plan_points(kernel: Kernel) -> PointsPlan:
    """The plan of a kernel.

    Raises:
        Refusal: its statements do not have one domain, or results lie nowhere side by
            side.
    """
    check_statements(kernel)
    statements = tuple(kernel.statements)
    if len(statements) == 1:
        statements = (collapse_axes(statements[0]),)
    depth = len(statements[0].kinds.rstrip("R"))
    extents = statements[0].extents[:depth]
    for statement in statements:
        is_alike = statement.kinds.rstrip("R") == "S" * depth
        if not is_alike or statement.extents[:depth] != extents:
            raise Refusal("its statements do not share the axes of their results")
        for access in statement.accesses:
            is_between = len(statements) > 1 and access.buffer in kernel.written
            if is_between and not _is_own(access, extents):
                raise Refusal("a statement reads what another place of it computes")
        if statement.read_within & kernel.written:
            raise Refusal(
                "a statement reads what another one computes where it is told"
            )
    axis = _side_by_side(statements[-1], depth)
    if axis is None:
        raise Refusal("neighbours along no axis lie side by side in its results")
    lanes = _lanes(statements, extents, axis, kernel.temporaries)
    return PointsPlan(statements, tuple(kernel.temporaries), extents, axis, lanes)


def lanes_along(
    accesses: Iterable[tuple[Access, int]], between: Collection[ir.Value]
) -> int:
    """How many neighbours a thread reads, or writes, at once: 16 bytes of the widest.

    Args:
        accesses: with the axis along which neighbours are.
        between: buffers that are no memory.
    """
    strides = [(access.buffer, access.stride_of(axis)) for access, axis in accesses]
    if any(stride not in (0, 1) for _, stride in strides):
        return 1
    walked = [b for b, stride in strides if stride and b not in between]
    widest = max([8, *(b.type.element_type.width for b in walked)])
    return min(_MOST_LANES, 8 * ACCESS_BYTES // widest)


def _lanes(
    statements: Sequence[Statement],
    extents: Sequence[Extent],
    axis: int,
    between: Collection[ir.Value],
) -> int:
    """How many neighbours along an axis a thread computes.

    Args:
        between: buffers that are no memory.
    """
    lanes = lanes_along([(a, axis) for s in statements for a in s.accesses], between)
    is_much = point_count(extents) >= lanes * _ENOUGH_THREADS
    return lanes if is_much else min(lanes, _LANES)


def _is_own(access: Access, extents: Sequence[Extent]) -> bool:
    """Whether an access is to the element of the point itself."""
    axes = [n for n, extent in enumerate(extents) if not is_one(extent)]
    return access.told_axes == axes


def _side_by_side(statement: Statement, depth: int) -> int | None:
    """The axis along which results lie side by side."""
    for axis in reversed(range(depth)):
        if all(a.stride_of(axis) == 1 for a in statement.outputs):
            return axis
    return None


def write_points(plan: PointsPlan) -> None:
    """Write the launch at the insertion point; one result a thread where lanes differ."""
    or_one_by_one(
        lambda: Points(plan).write(), lambda: Points(replace(plan, lanes=1)).write()
    )


def or_one_by_one(write: Callable[[], None], scalar: Callable[[], None]) -> None:
    """Write a launch in vectors; or, if lanes differ in more than their place, without."""
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
class Points:
    """Writes the statements of a plan.

    Attributes:
        registers: what stands in for the buffers between them.
    """

    plan: PointsPlan
    registers: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def write(self) -> None:
        """A launch of them alone."""
        launch_grids([self.grid()])

    def grid(self) -> Grid:
        """A thread for each of the neighbours' beginnings."""
        axis, lanes = self.plan.axis, self.plan.lanes
        extents = list(self.plan.extents)
        length = extents[axis]
        extents[axis] = ceil_div(length, lanes)

        def thread(where: list[Extent]) -> None:
            begin = multiply(where[axis], lanes)

            def one(place: ir.Value) -> tuple[()]:
                self._at([*where[:axis], place, *where[axis + 1 :]], 1)
                return ()

            def all_of_them() -> None:
                self._at([*where[:axis], begin, *where[axis + 1 :]], lanes)

            def rest() -> None:
                for_loop(begin, length, 1, one)

            is_whole = isinstance(length, int) and length % lanes == 0
            if is_whole or lanes == 1:
                all_of_them()
            else:
                if_less(add(begin, lanes - 1), length, all_of_them, rest)

        return Grid(extents, thread)

    def _at(self, where: Sequence[Extent], lanes: int) -> None:
        """All statements, for some neighbours."""
        points = dict(enumerate(where))
        self.place_registers(lanes)
        for statement in self.plan.statements:
            loops = StatementLoops(statement, points, self.relocate, {})
            loops.emit_point(self.plan.axis if lanes > 1 else None, lanes)

    def place_registers(self, lanes: int) -> None:
        """Let what lies between the statements stay with the thread."""
        self.registers = {
            buffer: alloc_private([lanes], buffer.type.element_type)
            for buffer in self.plan.temporaries
        }

    def relocate(
        self, buffer: ir.Value, where: list[ir.Value]
    ) -> tuple[ir.Value, list[ir.Value]]:
        """Where a buffer between the statements is, or any other."""
        if buffer in self.registers:
            return self.registers[buffer], [index(0)]
        return buffer, where
