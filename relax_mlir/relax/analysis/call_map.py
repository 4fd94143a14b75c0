"""Which functions of a module call which."""

from __future__ import annotations

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.passes.relax.dead_code_elimination import callees_of

__all__ = ["collect_call_map"]


def collect_call_map(module: IRModule) -> dict[GlobalVar, list[GlobalVar]]:
    """For each function of a module, those that it calls, each once."""
    variables = {v.name_hint: v for v in module.get_global_vars()}
    functions = {op.name.value: op for op in module.func_ops()}
    return {
        variables[name]: [
            variables[c] for c in dict.fromkeys(callees_of(op, functions))
        ]
        for name, op in functions.items()
    }
