"""Fallback rule: scalar loops in program order, for any kernel."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import parallel_loop
from relax_mlir.schedules.kernel_view import Kernel, without_size_arithmetic
from relax_mlir.schedules.rule import CpuRule

__all__ = ["Fallback"]


class Fallback(CpuRule[Kernel]):
    """Keeps a kernel as a single tile; linalg operations are lowered to scalar loops.

    If the kernel is one loop that a TIR schedule made parallel, each iteration is a tile.
    """

    def plan(self, kernel: Kernel) -> Kernel:
        """Match any kernel."""
        return kernel

    def write(self, plan: Kernel) -> None:
        """Move all operations except size arithmetic into the loop over tiles."""
        operations = without_size_arithmetic(list(own_operations(plan.block))[:-1])
        loop = _parallel_loop(operations)
        if loop is not None:
            _emit_steps(loop, [o for o in operations if o != loop])
            return

        def tile(_: ir.Value) -> None:
            inside = ir.InsertionPoint.current.block
            for operation in operations:
                inside.append(operation)

        parallel_loop(1, tile)


def _parallel_loop(operations: Sequence[ir.OpView]) -> ir.OpView | None:
    """The parallel loop of a kernel that has nothing else but allocations."""
    loops = [o for o in operations if o.operation.name != "memref.alloc"]
    if len(loops) != 1 or loops[0].operation.name != "scf.for":
        return None
    (loop,) = loops
    attributes = loop.operation.attributes
    if "tir.kind" not in attributes or len(loop.operation.results):
        return None
    is_parallel = ir.StringAttr(attributes["tir.kind"]).value == "parallel"
    return loop if is_parallel and constant_of(loop.operands[0]) == 0 else None


def _emit_steps(loop: ir.OpView, buffers: Sequence[ir.OpView]) -> None:
    """Turn each iteration of a loop into a tile with its own allocations."""
    body = loop.operation.regions[0].blocks[0]
    *operations, _ = own_operations(body)

    def tile(step: ir.Value) -> None:
        inside = ir.InsertionPoint.current.block
        for operation in (*buffers, *operations):
            inside.append(operation)
        body.arguments[0].replace_all_uses_with(step)

    parallel_loop(loop.operands[1], tile)
    erase(loop)
