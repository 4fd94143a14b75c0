"""``relax-bind-params``: parameters become constants."""

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
from relax_mlir.graphs import (
    constant,
    erase_parameters,
    graph_functions,
    substitute_sizes,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.base_check import BaseCheckResult, struct_info_base_check
from relax_mlir.objects.expr import Constant, PrimValue, ShapeExpr, Var
from relax_mlir.objects.infer import sizes_of
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import StructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.passes.relax.sharpen_types import sharpen_types, values_after
from relax_mlir.rewriting import Pass

__all__ = ["BindParams"]


@dataclass(frozen=True)
class BindParams(Pass):
    """Replace parameters of a function by arrays, shapes or scalars.

    Symbols that these parameters mention get their values from them.

    Args:
        func_name: the function.
        params: a value per parameter, or per name of one.
    """

    func_name: str
    params: Mapping[Any, Any] = field(metadata={"text": False}, default_factory=dict)

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if function.name.value == self.func_name:
                self._bind(module, function)

    def _bind(self, module: IRModule, function: func.FuncOp) -> None:
        known = names.arg_names(function)
        values = {
            _number(k, known, function): _expression(v) for k, v in self.params.items()
        }
        arguments = list(function.entry_block.arguments)
        symbols = Symbols()
        sizes: dict[str, Dim] = {}
        for number, value in values.items():
            expected = from_mlir(arguments[number].type, symbols)
            _match(str(known[number]), expected, value.struct_info, symbols, sizes)
        made: list[ir.Value] = []
        with ir.InsertionPoint.at_block_begin(function.entry_block), function.location:
            for number, value in sorted(values.items()):
                made.append(_written(module, value, str(known[number])))
                arguments[number].replace_all_uses_with(made[-1])
        erase_parameters(function, values)
        if sizes:
            substitute_sizes(function, sizes)
        readers = [op for value in made for op in values_after(value.owner.opview)]
        sharpen_types(module, function, readers)


def _number(key: Any, known: list[str | None], function: func.FuncOp) -> int:
    """Which parameter a name or a variable is."""
    name = key.name_hint if isinstance(key, Var) else key
    if known.count(name) != 1:
        listed = ", ".join(f"`{n}`" for n in known)
        raise PassError(
            f"`{function.name.value}`: expected one of the parameters {listed}, got `{name}`"
        )
    return known.index(name)


def _expression(value: Any) -> Constant | ShapeExpr | PrimValue:
    if isinstance(value, (Constant, ShapeExpr, PrimValue)):
        return value
    return Constant(np.asarray(value.numpy() if hasattr(value, "numpy") else value))


def _written(
    module: IRModule, value: Constant | ShapeExpr | PrimValue, key: str
) -> ir.Value:
    """The value at the insertion point; an array under the name of its parameter."""
    if isinstance(value, Constant):
        return constant(module, value.array, key)
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
    """Check a value against a parameter, and learn its symbols."""
    if struct_info_base_check(expected, got) < BaseCheckResult.FAIL_L2:
        raise PassError(f"parameter `{name}`: expected {expected}, got {got}")
    for stated, size in zip(sizes_of(expected), sizes_of(got), strict=False):
        dim = symbols.dim(stated)
        if isinstance(dim, int) or shapes.symbols_of(dim) != (str(dim),):
            continue
        learnt = symbols.dim(size)
        if sizes.setdefault(str(dim), learnt) != learnt:
            raise PassError(
                f"parameter `{name}`: expected size {sizes[str(dim)]}, got {got}"
            )
