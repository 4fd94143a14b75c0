"""``relax-expand-tuple-arguments``: private functions take the elements of tuples."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.call_graph import calls_function
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.graphs import (
    PACK,
    copy_script_attributes,
    drop_unread,
    graph_functions,
    operations_of,
    stand_beside,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.passes.relax.flatten_tuples import flatten_parameters, take_out_known
from relax_mlir.rewriting import Pass, replace

__all__ = ["ExpandTupleArguments", "calls_of"]


@dataclass(frozen=True)
class ExpandTupleArguments(Pass):
    """Pass every element of a tuple by itself, to functions that only the module sees."""

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            types = function.type.inputs
            has_tuples = any(isinstance(t, ir.TupleType) for t in types)
            if has_tuples and names.is_private(function):
                calls = calls_of(module, function)
                if calls is not None:
                    _expand(function, calls)
        for function in graph_functions(module):
            drop_unread(function)


def calls_of(module: IRModule, function: func.FuncOp) -> list[graph.CallOp] | None:
    """The calls of a function; None if it is also a value."""
    name = function.name.value
    found: list[graph.CallOp] = []
    for caller in module.func_ops():
        for op in operations_of(caller):
            if not calls_function(op, name):
                continue
            if not isinstance(op, graph.CallOp):
                return None
            found.append(op)
    return found


def _expand(function: func.FuncOp, calls: list[graph.CallOp]) -> None:
    called = [name or f"arg{i}" for i, name in enumerate(names.arg_names(function))]
    attrs = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in called])
    function.attributes["relax.input_names"] = attrs
    flatten_parameters(function)
    take_out_known(function)
    listed = ir.ArrayAttr(function.attributes["relax.input_names"])
    names.set_arg_names(function, [ir.StringAttr(n).value for n in listed])
    del function.attributes["relax.input_names"]
    for call in calls:
        _pass_elements(call)


def _pass_elements(call: graph.CallOp) -> None:
    with ir.InsertionPoint(call), call.location:
        arguments = [
            part
            for value in tensors.elements(call.args)
            for part in _elements(call, value)
        ]
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        new = graph.CallOp(arguments, callee=callee, results=[call.result.type])
    copy_script_attributes(call, new)
    replace(call, new.result)


def _elements(call: ir.OpView, value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.TupleType):
        return [value]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == PACK:
        parts = list(owner.operands)
    else:
        items = [TupleGetItemOp(value, index=i) for i in range(value.type.num_types)]
        for item in items:
            stand_beside(item, call)
        parts = [item.result for item in items]
    return [inner for part in parts for inner in _elements(call, part)]
