"""``relax-remove-unused-outputs``: removes unused results of private functions."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, own_operations
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.relax.flatten_tuples import fold_tuple_get_items
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    erase_unused_inline,
    graph_functions,
    update_type,
)
from relax_mlir.rewrite.patterns import Pass, erase_dead, replace
from relax_mlir.tvm.relax.transform.passes.expand_tuple_arguments import (
    calls_of_function,
)

__all__ = ["RemoveUnusedOutputs"]


@dataclass(frozen=True)
class RemoveUnusedOutputs(Pass):
    """Removes results of private functions that no caller reads.

    Computations that only these results need are removed, too.
    """

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            fold_tuple_get_items(function)
        for function in graph_functions(module):
            calls = (
                calls_of_function(module, function)
                if function_attributes.is_private(function)
                else None
            )
            used = _used_results(calls) if calls else None
            count = _num_results(function)
            if calls and used is not None and len(used) < count:
                _drop_results(function, sorted(used))
                effects = EffectAnalysis(module.mlir.operation)
                for block in blocks_of(function):
                    erase_dead(block, effects.is_removable)
                for call in calls:
                    _update_call(call, function, sorted(used))
        for function in graph_functions(module):
            erase_unused_inline(function)
            # An element may have a more precise type than the declared result.
            update_type(function)


def _num_results(function: func.FuncOp) -> int:
    """Returns the number of results of a tuple; 0 for a single or empty result."""
    results = function.type.results
    return len(results) if len(results) > 1 else 0


def _used_results(calls: list[graph.CallOp]) -> set[int] | None:
    """Returns the indices that callers read; None if one uses the whole tuple."""
    indices: set[int] = set()
    for call in calls:
        for use in call.result.uses:
            if not isinstance(use.owner, TupleGetItemOp):
                return None
            indices.add(use.owner.python_attrs()["index"])
    return indices


def _drop_results(function: func.FuncOp, used: list[int]) -> None:
    returned = list(own_operations(function.entry_block))[-1]
    kept = [list(returned.operands)[i] for i in used]
    with ir.InsertionPoint(returned), returned.location:
        func.ReturnOp(kept if kept else [tensors.pack_tuple([])])
    returned.operation.erase()
    update_type(function)


def _update_call(call: graph.CallOp, function: func.FuncOp, used: list[int]) -> None:
    results = list(function.type.results)
    is_one = len(results) == 1
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    type_ = tensors.packed_type(results)
    with ir.InsertionPoint(call), call.location:
        new = graph.CallOp(
            tensors.tuple_elements(call.args),
            callee=callee,
            results=[type_],
        )
    copy_script_attributes(call, new)
    for use in list(call.result.uses):
        item = use.owner
        with ir.InsertionPoint(item), item.location:
            if is_one:
                replacement = graph.BindOp(new.result, results=[type_])
            else:
                index = used.index(item.python_attrs()["index"])
                replacement = TupleGetItemOp(new.result, index=index)
        copy_script_attributes(item, replacement)
        replace(item, replacement.operation.results[0])
    call.operation.erase()
