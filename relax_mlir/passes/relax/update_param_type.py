"""``relax-update-param-type``: parameters of another type, and what follows from it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.graphs import graph_functions, update_type
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info_types import to_mlir
from relax_mlir.passes.relax.infer_shapes import derived_types
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations

__all__ = ["UpdateParamType"]


@dataclass(frozen=True)
class UpdateParamType(Pass):
    """Give parameters the types that a function tells, and infer those of all results.

    Args:
        type_of: from a variable to its new struct info; None leaves it.
    """

    type_of: Callable[[Any], Any] | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            self._update(module, function)

    def _update(self, module: IRModule, function: func.FuncOp) -> None:
        if self.type_of is None:
            return
        scope = FunctionScope()
        reader = Reader(scope, module.constants)
        block = function.entry_block
        params = reader.params(block, names.arg_names(function))
        changed = False
        for param, argument in zip(params, block.arguments, strict=True):
            info = self.type_of(param)
            if info is not None:
                argument.set_type(to_mlir(info, scope.symbols))
                changed = True
        if changed:
            _infer(module, function)


def _infer(module: IRModule, function: func.FuncOp) -> None:
    functions = {f.name.value: f for f in module.func_ops()}
    for op in own_operations(function.entry_block):
        derived: list[ir.Type] = derived_types(op, functions) or []
        if isinstance(op, graph.BindOp):
            derived = [op.value.type]
        for result, type_ in zip(op.operation.results, derived, strict=False):
            result.set_type(type_)
    update_type(function)
