"""``relax-expand-tuple-arguments``: flattens tuple parameters of private functions."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.call_graph import calls_function
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.passes.relax.flatten_tuples import (
    flatten_parameters,
    fold_tuple_get_items,
)
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    erase_unused_inline,
    flatten_tuple,
    graph_functions,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["ExpandTupleArguments", "calls_of_function"]


@dataclass(frozen=True)
class ExpandTupleArguments(Pass):
    """Flattens tuple parameters of private functions into their elements."""

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            types = function.type.inputs
            has_tuples = any(isinstance(t, ir.TupleType) for t in types)
            if has_tuples and function_attributes.is_private(function):
                calls = calls_of_function(module, function)
                if calls is not None:
                    _expand(function, calls)
        for function in graph_functions(module):
            erase_unused_inline(function)


def calls_of_function(
    module: IRModule, function: func.FuncOp
) -> list[graph.CallOp] | None:
    """Returns the calls of a function; None if it is also used as a value."""
    name = function.name.value
    calls: list[graph.CallOp] = []
    for caller in module.func_ops():
        for op in operations_of(caller):
            if not calls_function(op, name):
                continue
            if not isinstance(op, graph.CallOp):
                return None
            calls.append(op)
    return calls


def _expand(function: func.FuncOp, calls: list[graph.CallOp]) -> None:
    param_names = [
        name or f"arg{i}"
        for i, name in enumerate(function_attributes.arg_names(function))
    ]
    attrs = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in param_names])
    function.attributes["relax.input_names"] = attrs
    flatten_parameters(function)
    fold_tuple_get_items(function)
    listed = ir.ArrayAttr(function.attributes["relax.input_names"])
    function_attributes.set_arg_names(
        function, [ir.StringAttr(n).value for n in listed]
    )
    del function.attributes["relax.input_names"]
    for call in calls:
        _expand_call(call)


def _expand_call(call: graph.CallOp) -> None:
    with ir.InsertionPoint(call), call.location:
        arguments = [
            element
            for value in tensors.tuple_elements(call.args)
            for element in flatten_tuple(value, call)
        ]
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        new = graph.CallOp(arguments, callee=callee, results=[call.result.type])
    copy_script_attributes(call, new)
    replace(call, new.result)
