"""``relax-remove-unused-outputs``: private functions give only what is read."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.graphs import (
    blocks_of,
    copy_script_attributes,
    drop_unread,
    graph_functions,
    update_type,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.relax.expand_tuple_arguments import calls_of
from relax_mlir.passes.relax.flatten_tuples import take_out_known
from relax_mlir.rewriting import Pass, erase_dead, replace
from relax_mlir.traversal import own_operations

__all__ = ["RemoveUnusedOutputs"]


@dataclass(frozen=True)
class RemoveUnusedOutputs(Pass):
    """Drop elements of the tuple that a private function gives, if no caller reads them.

    What only they needed goes away with them.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            take_out_known(function)
        for function in graph_functions(module):
            calls = calls_of(module, function) if names.is_private(function) else None
            used = _used(calls) if calls else None
            count = _count(function)
            if calls and used is not None and len(used) < count:
                _give_less(function, sorted(used))
                effects = EffectAnalysis(module.mlir.operation)
                for block in blocks_of(function):
                    erase_dead(block, effects.is_removable)
                for call in calls:
                    _read_less(call, function, sorted(used))
        for function in graph_functions(module):
            drop_unread(function)
            # More may be known of an element than a function said of its whole result.
            update_type(function)


def _count(function: func.FuncOp) -> int:
    """How many elements the result has; 0 for one that is written down nowhere."""
    results = function.type.results
    return len(results) if len(results) > 1 else 0


def _used(calls: list[graph.CallOp]) -> set[int] | None:
    """The elements that callers read; None if one reads the whole tuple."""
    found: set[int] = set()
    for call in calls:
        for use in call.result.uses:
            if not isinstance(use.owner, TupleGetItemOp):
                return None
            found.add(use.owner.python_attrs()["index"])
    return found


def _give_less(function: func.FuncOp, used: list[int]) -> None:
    returned = list(own_operations(function.entry_block))[-1]
    kept = [list(returned.operands)[i] for i in used]
    with ir.InsertionPoint(returned), returned.location:
        func.ReturnOp(kept if kept else [tensors.pack([])])
    returned.operation.erase()
    update_type(function)


def _read_less(call: graph.CallOp, function: func.FuncOp, used: list[int]) -> None:
    results = list(function.type.results)
    is_one = len(results) == 1
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    with ir.InsertionPoint(call), call.location:
        type_ = results[0] if is_one else ir.TupleType.get_tuple(results)
        new = graph.CallOp(tensors.elements(call.args), callee=callee, results=[type_])
    copy_script_attributes(call, new)
    for use in list(call.result.uses):
        item = use.owner
        with ir.InsertionPoint(item), item.location:
            if is_one:
                bound = graph.BindOp(new.result, results=[type_])
            else:
                place = used.index(item.python_attrs()["index"])
                bound = TupleGetItemOp(new.result, index=place)
        copy_script_attributes(item, bound)
        replace(item, bound.operation.results[0])
    call.operation.erase()
