"""``relax-remove-purity-checking``: disables purity checks of pure functions."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.rewrite.functions import (
    copy_script_attributes,
    graph_attrs,
    graph_functions,
    set_graph_attrs,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["RemovePurityChecking"]


@dataclass(frozen=True)
class RemovePurityChecking(Pass):
    """Sets ``relax.force_pure`` on pure functions, and lowers pure call wrappers to calls."""

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if function_attributes.IMPURE not in function.attributes:
                attrs = {**graph_attrs(function), "relax.force_pure": True}
                set_graph_attrs(function, attrs)
            for op in operations_of(function):
                if isinstance(op, graph.CallOperatorOp):
                    _unwrap(op)
                elif isinstance(op, graph.FunctionOp):
                    _force_pure(op)


def _force_pure(op: graph.FunctionOp) -> None:
    """Sets the attribute on a nested pure function."""
    func_attrs = from_attribute(op.attributes["attrs"])
    if func_attrs["is_pure"]:
        attrs = {**func_attrs["attrs"], "relax.force_pure": True}
        op.attributes["attrs"] = to_attribute({**func_attrs, "attrs": attrs})


def _unwrap(op: graph.CallOperatorOp) -> None:
    operator = ir.StringAttr(op.attributes["operator"]).value
    if operator == "relax.invoke_pure_closure":
        op.attributes["operator"] = ir.StringAttr.get("relax.invoke_closure")
    if operator not in ("relax.call_pure_packed", "relax.call_inplace_packed"):
        return
    callee, *arguments = tensors.tuple_elements(op.args)
    source = callee.owner
    with ir.InsertionPoint(op), op.location:
        if not isinstance(source, ir.Block) and isinstance(
            source.opview, graph.ExternFuncOp
        ):
            name = ir.StringAttr(source.attributes["callee"]).value
            call: ir.OpView = graph.CallExternOp(
                arguments,
                callee=name,
                attrs=ir.DictAttr.get({}),
                results=[op.result.type],
            )
            call.attributes["relax.types"] = op.attributes["types"]
        else:
            call = graph.CallValueOp(callee, arguments, results=[op.result.type])
    copy_script_attributes(op, call)
    replace(op, call.operation.results[0])
