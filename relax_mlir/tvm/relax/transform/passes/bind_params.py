"""``relax-bind-params``: replaces parameters by constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.struct_info_base_check import (
    BaseCheckResult,
    struct_info_base_check,
)
from relax_mlir.objects.expr import Constant, PrimValue, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.infer.struct_info import struct_info_sizes
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.refine_types import refine_result_types, results_of_users
from relax_mlir.rewrite.functions import (
    erase_parameters,
    graph_functions,
    pooled_constant,
    substitute_sizes,
)
from relax_mlir.rewrite.patterns import Pass

__all__ = ["BindParams"]


@dataclass(frozen=True)
class BindParams(Pass):
    """Replaces parameters of a function by arrays, shapes or scalars.

    Symbols in the types of these parameters are bound to the sizes of the values.

    Args:
        func_name: the function.
        params: a value per parameter variable or parameter name.
    """

    func_name: str
    params: Mapping[Any, Any] = field(metadata={"text": False}, default_factory=dict)

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if function.name.value == self.func_name:
                self._bind(module, function)

    def _bind(self, module: IRModule, function: func.FuncOp) -> None:
        names = function_attributes.arg_names(function)
        values = {
            _param_index(k, names, function): _as_expression(v)
            for k, v in self.params.items()
        }
        arguments = list(function.entry_block.arguments)
        symbols = Symbols()
        sizes: dict[str, Dim] = {}
        for index, value in values.items():
            expected = from_mlir(arguments[index].type, symbols)
            _match(str(names[index]), expected, value.struct_info, symbols, sizes)
        emitted: list[ir.Value] = []
        with ir.InsertionPoint.at_block_begin(function.entry_block), function.location:
            for index, value in sorted(values.items()):
                emitted.append(_emit_value(module, value, str(names[index])))
                arguments[index].replace_all_uses_with(emitted[-1])
        erase_parameters(function, values)
        if sizes:
            substitute_sizes(function, sizes)
        readers = [
            op for value in emitted for op in results_of_users(value.owner.opview)
        ]
        refine_result_types(module, function, readers)


def _param_index(key: Any, names: list[str | None], function: func.FuncOp) -> int:
    """Returns the index of a parameter, given by name or as a variable."""
    name = key.name_hint if isinstance(key, Var) else key
    if names.count(name) != 1:
        listed = ", ".join(f"`{n}`" for n in names)
        raise PassError(
            f"`{function.name.value}`: expected one of the parameters {listed}, got `{name}`"
        )
    return names.index(name)


def _as_expression(value: Any) -> Constant | ShapeExpr | PrimValue:
    if isinstance(value, (Constant, ShapeExpr, PrimValue)):
        return value
    return Constant(np.asarray(value.numpy() if hasattr(value, "numpy") else value))


def _emit_value(
    module: IRModule, value: Constant | ShapeExpr | PrimValue, key: str
) -> ir.Value:
    """Emits a value; an array gets the name of its parameter."""
    if isinstance(value, Constant):
        return pooled_constant(module, value.array, key)
    type_ = to_mlir(value.struct_info, Symbols())
    if isinstance(value, ShapeExpr):
        return graph.ShapeExprOp(results=[type_]).result
    return graph.PrimValueOp(value=ir.UnitAttr.get(), results=[type_]).result


def _match(
    name: str,
    expected: StructInfo,
    got: StructInfo,
    symbols: Symbols,
    sizes: dict[str, Dim],
) -> None:
    """Checks a value against the type of its parameter, and binds symbols."""
    if struct_info_base_check(expected, got) < BaseCheckResult.FAIL_L2:
        raise PassError(f"parameter `{name}`: expected {expected}, got {got}")
    for declared, size in zip(
        struct_info_sizes(expected), struct_info_sizes(got), strict=False
    ):
        dim = symbols.dim(declared)
        if isinstance(dim, int) or shapes.symbols_of(dim) != (str(dim),):
            continue
        bound_size = symbols.dim(size)
        if sizes.setdefault(str(dim), bound_size) != bound_size:
            raise PassError(
                f"parameter `{name}`: expected size {sizes[str(dim)]}, got {got}"
            )
