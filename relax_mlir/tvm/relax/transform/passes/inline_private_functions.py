"""``relax-inline-private-functions``: inlines private functions."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, operations_of, own_operations
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.passes.relax.inline_calls import inline_calls
from relax_mlir.rewrite.functions import (
    dataflow_block_number,
    graph_functions,
    update_type,
)
from relax_mlir.rewrite.patterns import Pass, erase, erase_dead
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    canonicalize_function,
)
from relax_mlir.tvm.relax.transform.passes.convert_to_dataflow import (
    mark_dataflow_outputs,
)

__all__ = ["InlinePrivateFunctions", "inline_named"]


@dataclass(frozen=True)
class InlinePrivateFunctions(Pass):
    """Inlines private functions that are not recursive, and removes them."""

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in graph_functions(module)}
        call_graph = CallGraph(module)
        inlinable = {
            n
            for n, f in functions.items()
            if function_attributes.is_private(f) and not call_graph.is_recursive(n)
        }
        inline_named(module, inlinable)
        remaining = CallGraph(module)
        for name in inlinable:
            if not remaining.callers(name):
                erase(functions[name])


def inline_named(module: IRModule, names: set[str]) -> None:
    """Inlines the functions called ``names`` at all call sites.

    Raises:
        PassError: one is recursive.
    """
    functions = {f.name.value: f for f in graph_functions(module)}
    calls = CallGraph(module)
    changed = [f for n, f in functions.items() if names & {*calls.callees(n)}]
    inline_calls(module, lambda f: f.name.value in names, keep_blocks=True)
    for function in changed:
        _clean_up(module, function)


def _clean_up(module: IRModule, function: func.FuncOp) -> None:
    """Splits interrupted dataflow blocks, and removes aliases."""
    for block in blocks_of(function):
        _split_dataflow_blocks(block, function)
        mark_dataflow_outputs(block)
    update_type(function)
    canonicalize_function(module, function)
    effects = EffectAnalysis(module.mlir.operation)
    for block in reversed(list(blocks_of(function))):
        erase_dead(block, effects.is_removable)


def _split_dataflow_blocks(block: ir.Block, function: func.FuncOp) -> None:
    """Renumbers bindings of a dataflow block that follow one outside of it."""
    count = 1 + max(map(dataflow_block_number, operations_of(function)), default=-1)
    finished: set[int] = set()
    last, new_number = -1, -1
    for op in own_operations(block):
        if function_attributes.NAME not in op.operation.attributes:
            continue
        current = dataflow_block_number(op)
        if current != last:
            finished.add(last)
            new_number = count if current in finished else current
            count += current in finished
            last = current
        if current >= 0 and new_number != current:
            op.operation.attributes[function_attributes.BLOCK] = to_attribute(
                new_number
            )
