"""``relax-remove-unused-parameters``: private functions take only what they read."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import (
    blocks_of,
    copy_script_attributes,
    drop_unread,
    erase_parameters,
    graph_functions,
    symbols_in,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.passes.relax.expand_tuple_arguments import calls_of
from relax_mlir.rewriting import Pass, has_uses, replace

__all__ = ["RemoveUnusedParameters"]


@dataclass(frozen=True)
class RemoveUnusedParameters(Pass):
    """Drop parameters that a private function does not read, and what callers pass.

    One whose shape alone tells a size stays.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            calls = calls_of(module, function) if names.is_private(function) else None
            unused = _unused(function)
            if calls and unused:
                erase_parameters(function, unused)
                for call in calls:
                    _pass_less(call, unused)
        for function in graph_functions(module):
            drop_unread(function)


def _unused(function: func.FuncOp) -> list[int]:
    arguments = list(function.entry_block.arguments)
    types = [
        r.type
        for b in blocks_of(function)
        for o in b.operations
        for r in o.operation.results
    ]
    needed = set(symbols_in([*types, *function.type.results]))
    kept = [a for a in arguments if has_uses(a)]
    told = set(symbols_in(a.type for a in kept))
    found: list[int] = []
    for number, argument in enumerate(arguments):
        if has_uses(argument):
            continue
        own = set(symbols_in([argument.type]))
        if own & needed - told:
            told |= own
        else:
            found.append(number)
    return found


def _pass_less(call: graph.CallOp, unused: list[int]) -> None:
    given = tensors.elements(call.args)
    kept = [value for number, value in enumerate(given) if number not in unused]
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    with ir.InsertionPoint(call), call.location:
        new = graph.CallOp(kept, callee=callee, results=[call.result.type])
    copy_script_attributes(call, new)
    replace(call, new.result)
