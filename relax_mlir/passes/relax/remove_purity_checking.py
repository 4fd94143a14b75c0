"""``relax-remove-purity-checking``: pure functions may call what has effects."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import (
    copy_script_attributes,
    graph_attrs,
    graph_functions,
    operations_of,
    set_graph_attrs,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.rewriting import Pass, replace

__all__ = ["RemovePurityChecking"]


@dataclass(frozen=True)
class RemovePurityChecking(Pass):
    """Say ``relax.force_pure`` of pure functions, and call without a promise of purity."""

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if names.IMPURE not in function.attributes:
                attrs = {**graph_attrs(function), "relax.force_pure": True}
                set_graph_attrs(function, attrs)
            for op in operations_of(function):
                if isinstance(op, graph.CallOperatorOp):
                    _unwrap(op)
                elif isinstance(op, graph.FunctionOp):
                    _force_pure(op)


def _force_pure(op: graph.FunctionOp) -> None:
    """Say it of a function inside a function, if it is pure."""
    known = from_attribute(op.attributes["attrs"])
    if known["is_pure"]:
        attrs = {**known["attrs"], "relax.force_pure": True}
        op.attributes["attrs"] = to_attribute({**known, "attrs": attrs})


def _unwrap(op: graph.CallOperatorOp) -> None:
    operator = ir.StringAttr(op.attributes["operator"]).value
    if operator == "relax.invoke_pure_closure":
        op.attributes["operator"] = ir.StringAttr.get("relax.invoke_closure")
    if operator not in ("relax.call_pure_packed", "relax.call_inplace_packed"):
        return
    callee, *arguments = tensors.elements(op.args)
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
