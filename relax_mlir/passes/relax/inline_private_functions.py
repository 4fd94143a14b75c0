"""``relax-inline-private-functions``: functions that only the module sees go away."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.call_graph import CallGraph
from relax_mlir.graphs import (
    block_number,
    blocks_of,
    graph_functions,
    operations_of,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.relax.canonicalize_bindings import canonicalize
from relax_mlir.passes.relax.convert_to_dataflow import mark_outputs
from relax_mlir.passes.relax.inline_calls import inline_calls
from relax_mlir.rewriting import Pass, erase, erase_dead
from relax_mlir.traversal import own_operations

__all__ = ["InlinePrivateFunctions", "inline_named"]


@dataclass(frozen=True)
class InlinePrivateFunctions(Pass):
    """Inline private functions, unless they call themselves, and remove them."""

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in graph_functions(module)}
        calls = CallGraph(module)
        wanted = {
            n
            for n, f in functions.items()
            if names.is_private(f) and not calls.is_recursive(n)
        }
        inline_named(module, wanted)
        left = CallGraph(module)
        for name in wanted:
            if not left.callers(name):
                erase(functions[name])


def inline_named(module: IRModule, wanted: set[str]) -> None:
    """Inline the functions called ``wanted`` wherever the module calls them.

    Raises:
        PassError: one calls itself.
    """
    functions = {f.name.value: f for f in graph_functions(module)}
    calls = CallGraph(module)
    changed = [f for n, f in functions.items() if wanted & {*calls.callees(n)}]
    inline_calls(module, lambda f: f.name.value in wanted, keep_blocks=True)
    for function in changed:
        _tidy(module, function)


def _tidy(module: IRModule, function: func.FuncOp) -> None:
    """Part dataflow blocks that others stand in, and drop second names."""
    for block in blocks_of(function):
        _part_blocks(block, function)
        mark_outputs(block)
    update_type(function)
    canonicalize(module, function)
    effects = EffectAnalysis(module.mlir.operation)
    for block in reversed(list(blocks_of(function))):
        erase_dead(block, effects.is_removable)


def _part_blocks(block: ir.Block, function: func.FuncOp) -> None:
    """Give bindings other numbers that stand behind what is in no dataflow block."""
    count = 1 + max(map(block_number, operations_of(function)), default=-1)
    left: set[int] = set()
    last, number = -1, -1
    for op in own_operations(block):
        if names.NAME not in op.operation.attributes:
            continue
        own = block_number(op)
        if own != last:
            left.add(last)
            number = count if own in left else own
            count += own in left
            last = own
        if own >= 0 and number != own:
            op.operation.attributes[names.BLOCK] = to_attribute(number)
