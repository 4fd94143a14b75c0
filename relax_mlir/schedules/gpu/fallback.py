"""Fallback rule: one thread per result, scalar loops; matches every kernel."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import clone, erase
from relax_mlir.schedules.builder import IndexLike, index
from relax_mlir.schedules.gpu.grid import for_each_point
from relax_mlir.schedules.gpu.launch import launch
from relax_mlir.schedules.gpu.rule import GpuRule
from relax_mlir.schedules.kernel_view import (
    Kernel,
    Statement,
    read_statement,
    without_size_arithmetic,
)
from relax_mlir.schedules.statement_loops import StatementLoops

__all__ = ["Fallback"]


class Fallback(GpuRule[Kernel]):
    """Any kernel: a launch per statement, with a thread for each of its results.

    A loop nest becomes a launch with a thread for each point of its spatial loops. All other
    code runs unchanged on a single thread.
    """

    def plan(self, kernel: Kernel) -> Kernel:
        """Matches any kernel."""
        return kernel

    def write(self, plan: Kernel) -> None:
        if plan.statements and not plan.has_loops:
            for statement in plan.statements:
                _write_statement(statement)
            return
        others: list[ir.OpView] = []
        for operation in without_size_arithmetic(list(own_operations(plan.block))[:-1]):
            name = operation.operation.name
            if name == "linalg.generic" or _is_spatial(operation):
                _write_serially(others)
                if name == "linalg.generic":
                    _write_statement(read_statement(operation, {}))
                else:
                    _write_nest(operation)
                others = []
            elif not name.startswith("memref.") or name in _MEMORY_ACCESSES:
                others.append(operation)
        _write_serially(others)


_MEMORY_ACCESSES = frozenset({"memref.load", "memref.store", "memref.copy"})


def _write_statement(statement: Statement) -> None:
    """Emits a launch with a thread for each point of the spatial axes."""
    axes = [axis for axis, kind in enumerate(statement.kinds) if kind == "S"]

    def point(where: list[IndexLike]) -> None:
        points = dict(zip(axes, where, strict=True))
        StatementLoops(statement, points, lambda b, i: (b, i), {}).emit_point(None, 1)

    for_each_point([statement.extents[axis] for axis in axes], point)


def _is_spatial(operation: ir.OpView) -> bool:
    """Whether an operation is a loop over a spatial axis, whose iterations are independent."""
    attributes = operation.operation.attributes
    is_axis = (
        operation.operation.name == "scf.for" and attribute_names.AXIS in attributes
    )
    return is_axis and ir.StringAttr(attributes[attribute_names.AXIS]).value == "S"


def _write_nest(outermost: ir.OpView) -> None:
    """Emits a launch with a thread for each point of a perfect nest of spatial loops."""
    loops = [outermost]
    body = outermost.operation.regions[0].blocks[0]
    while True:
        *operations, _ = own_operations(body)
        inner = [o for o in operations if o.operation.name != "arith.constant"]
        if len(inner) != 1 or not _is_spatial(inner[0]):
            break
        loops.append(inner[0])
        body = inner[0].operation.regions[0].blocks[0]
    ends = [loop.operands[1] for loop in loops]
    extents: list[IndexLike] = [constant_of(end) or end for end in ends]

    def point(where: list[IndexLike]) -> None:
        mapping = {
            loop.operation.regions[0].blocks[0].arguments[0]: index(at)
            for loop, at in zip(loops, where, strict=True)
        }
        *operations, _ = own_operations(body)
        for operation in operations:
            clone(operation, mapping)

    for_each_point(extents, point)
    erase(outermost)


def _write_serially(operations: Sequence[ir.OpView]) -> None:
    """Emits a launch of one thread that runs some operations."""
    if not operations:
        return

    def thread(_: ir.Value, __: ir.Value) -> None:
        inside = ir.InsertionPoint.current.block
        for operation in operations:
            inside.append(operation)

    launch(1, 1, thread)
