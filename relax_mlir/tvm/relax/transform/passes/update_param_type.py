"""``relax-update-param-type``: changes parameter types and infers the rest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.expr.struct_info_types import to_mlir
from relax_mlir.objects.read.relax import RelaxReader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.passes.relax.infer_shapes import derived_types
from relax_mlir.rewrite.functions import graph_functions, update_type
from relax_mlir.rewrite.patterns import Pass

__all__ = ["UpdateParamType"]


@dataclass(frozen=True)
class UpdateParamType(Pass):
    """Changes the types of parameters and infers those of all results.

    Args:
        type_of: maps a variable to its new struct info, or to None to keep it.
    """

    type_of: Callable[[Any], Any] | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            self._update(module, function)

    def _update(self, module: IRModule, function: func.FuncOp) -> None:
        if self.type_of is None:
            return
        scope = FunctionScope()
        reader = RelaxReader(scope, module.constants)
        block = function.entry_block
        params = reader.params(block, function_attributes.arg_names(function))
        changed = False
        for param, argument in zip(params, block.arguments, strict=True):
            info = self.type_of(param)
            if info is not None:
                argument.set_type(to_mlir(info, scope.symbols))
                changed = True
        if changed:
            _infer_types(module, function)


def _infer_types(module: IRModule, function: func.FuncOp) -> None:
    functions = {f.name.value: f for f in module.func_ops()}
    for op in own_operations(function.entry_block):
        derived: list[ir.Type] = derived_types(op, functions) or []
        if isinstance(op, graph.BindOp):
            derived = [op.value.type]
        for result, type_ in zip(op.operation.results, derived, strict=False):
            result.set_type(type_)
    update_type(function)
