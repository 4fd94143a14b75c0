"""Call graph of a module, as ``tvm.ir.analysis`` returns it."""

from __future__ import annotations

from relax_mlir.analysis.call_graph import CallGraph
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import GlobalVar

__all__ = ["collect_call_map"]


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """Distinct callees of each function of a module."""
    graph = CallGraph(module)
    variables = {v.name_hint: v for v in module.get_global_vars()}
    return {
        variable: [variables[callee] for callee in graph.callees(name)]
        for name, variable in variables.items()
    }
