"""Which functions of a module call which."""

from __future__ import annotations

from relax_mlir.call_graph import CallGraph
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import GlobalVar

__all__ = ["collect_call_map"]


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """For each function of a module, those that it calls, each once."""
    graph = CallGraph(module)
    variables = {v.name_hint: v for v in module.get_global_vars()}
    return {
        variable: [variables[callee] for callee in graph.callees(name)]
        for name, variable in variables.items()
    }
