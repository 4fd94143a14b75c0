"""``relax-dead-code-elimination``: bindings and functions that nothing needs go away."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallDpsPackedOp
from relax_mlir.errors import PassError
from relax_mlir.graphs import blocks_of, graph_functions, is_pure
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.rewriting import Pass, erase_dead, walk

__all__ = ["DeadCodeElimination", "callees_of", "erase_unreachable"]


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Remove bindings that nothing reads, and functions that nothing calls.

    Args:
        entry_functions: what is called from outside, beside all functions that are not
            private.
    """

    opt_level = 1
    entry_functions: tuple[str, ...] = ()

    def run(self, module: IRModule) -> None:
        erase_unreachable(module, self.entry_functions)
        pure = {
            f.name.value
            for f in graph_functions(module)
            if names.IMPURE not in f.attributes
        }
        for function in graph_functions(module):
            for block in reversed(list(blocks_of(function))):
                erase_dead(block, lambda op: _is_removable(op, pure))
        erase_unreachable(module, self.entry_functions)


def _is_removable(op: ir.Operation, pure: set[str]) -> bool:
    view = op.opview
    if isinstance(view, graph.CallOp):
        return ir.FlatSymbolRefAttr(view.attributes["callee"]).value in pure
    if isinstance(view, graph.IfOp):
        return all(
            i.operation.name == "gpu.yield" or _is_removable(i.operation, pure)
            for i in walk(view)
        )
    if isinstance(view, graph.CallOperatorOp):
        return not ir.StringAttr(view.attributes["operator"]).value.startswith(_IMPURE)
    return isinstance(view, CallDpsPackedOp) or is_pure(view)


# Operators that do more than compute their result.
_IMPURE = (
    *("relax.print", "relax.assert_op", "relax.call_inplace_packed", "relax.memory."),
    *("relax.vm.", "relax.invoke_closure", "relax.call_builtin_with_ctx"),
)


def erase_unreachable(module: IRModule, entries: tuple[str, ...] = ()) -> None:
    """Remove functions that neither an exported function nor ``entries`` lead to.

    Raises:
        PassError: an entry is no function of the module.
    """
    functions = {f.name.value: f for f in module.func_ops()}
    for entry in entries:
        if entry not in functions:
            raise PassError(f"entry `{entry}`: module has no such function")
    todo = [n for n, f in functions.items() if not names.is_private(f)]
    todo += entries
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += callees_of(functions[name], functions)
    for name, function in functions.items():
        if name not in reached:
            function.operation.erase()


def callees_of(
    function: func.FuncOp, functions: Mapping[str, func.FuncOp]
) -> list[str]:
    """The functions of the module that one mentions."""
    found = []
    for op in walk(function):
        attributes = op.operation.attributes
        if "callee" in attributes:
            attr = attributes["callee"]
            if isinstance(attr, ir.FlatSymbolRefAttr) and attr.value in functions:
                found.append(attr.value)
    return found
