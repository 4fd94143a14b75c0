"""``relax-dead-code-elimination``: removes unused bindings and unreachable functions."""

from dataclasses import dataclass

from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.rewrite.functions import graph_functions
from relax_mlir.rewrite.patterns import Pass, erase_dead

__all__ = ["DeadCodeElimination", "erase_unreachable"]


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Remove bindings without users and functions that no entry function reaches.

    Args:
        entry_functions: entry points, in addition to all functions that are not private.
    """

    opt_level = 1
    entry_functions: tuple[str, ...] = ()

    def run(self, module: IRModule) -> None:
        erase_unreachable(module, self.entry_functions)
        effects = EffectAnalysis(module.mlir.operation)
        for function in graph_functions(module):
            for block in reversed(list(blocks_of(function))):
                erase_dead(block, effects.is_removable)
        erase_unreachable(module, self.entry_functions)


def erase_unreachable(module: IRModule, entries: tuple[str, ...] = ()) -> None:
    """Removes functions that no exported function and none of ``entries`` reaches.

    Raises:
        PassError: an entry is not a function of the module.
    """
    functions = {f.name.value: f for f in module.func_ops()}
    for entry in entries:
        if entry not in functions:
            raise PassError(f"entry `{entry}`: module has no such function")
    roots = [n for n, f in functions.items() if not function_attributes.is_private(f)]
    reached = CallGraph(module).reachable([*roots, *entries])
    for name, function in functions.items():
        if name not in reached:
            function.operation.erase()
