"""``relax-inline-private-functions``: functions that only the module sees go away."""

from dataclasses import dataclass

from mlir.dialects import func

from relax_mlir.graphs import graph_functions
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.passes.relax.dead_code_elimination import callees_of
from relax_mlir.passes.relax.inline_calls import inline_calls
from relax_mlir.rewriting import Pass, erase, walk

__all__ = ["InlinePrivateFunctions"]


@dataclass(frozen=True)
class InlinePrivateFunctions(Pass):
    """Inline private functions, unless they call themselves, and remove them."""

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in graph_functions(module)}
        recursive = {n for n in functions if _reaches_itself(n, functions)}
        wanted = {
            n
            for n, f in functions.items()
            if names.is_private(f) and n not in recursive
        }
        inline_calls(module, lambda f: f.name.value in wanted)
        for name in wanted:
            if not _is_mentioned(name, module):
                erase(functions[name])


def _reaches_itself(name: str, functions: dict[str, func.FuncOp]) -> bool:
    todo, seen = callees_of(functions[name], functions), set[str]()
    while todo:
        callee = todo.pop()
        if callee == name:
            return True
        if callee not in seen:
            seen.add(callee)
            todo += callees_of(functions[callee], functions)
    return False


def _is_mentioned(name: str, module: IRModule) -> bool:
    return any(
        "callee" in op.operation.attributes
        and str(op.operation.attributes["callee"]) == f"@{name}"
        for op in walk(module.mlir.operation)
    )
