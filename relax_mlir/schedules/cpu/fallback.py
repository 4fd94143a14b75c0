"""Fallback: scalar loops as they stand; takes any kernel."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.indexing import constant_of
from relax_mlir.rewriting import erase
from relax_mlir.schedules.emit import parallel_loop
from relax_mlir.schedules.nest import Kernel, beyond_sizes
from relax_mlir.schedules.rule import Rule
from relax_mlir.traversal import own_operations

__all__ = ["Fallback"]


class Fallback(Rule[Kernel]):
    """The kernel as it stands, as a single tile; linalg operations become scalar loops.

    Where all of it is one loop that a schedule made parallel, each step is a tile.
    """

    def plan(self, kernel: Kernel) -> Kernel:
        """Any kernel."""
        return kernel

    def write(self, plan: Kernel) -> None:
        """Move all operations into the loop over tiles, but for sizes."""
        operations = beyond_sizes(list(own_operations(plan.block))[:-1])
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
    """The parallel loop that a kernel is, beside its buffers."""
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
    """A tile per step, with buffers of its own."""
    body = loop.operation.regions[0].blocks[0]
    *operations, _ = own_operations(body)

    def tile(step: ir.Value) -> None:
        inside = ir.InsertionPoint.current.block
        for operation in (*buffers, *operations):
            inside.append(operation)
        body.arguments[0].replace_all_uses_with(step)

    parallel_loop(loop.operands[1], tile)
    erase(loop)
