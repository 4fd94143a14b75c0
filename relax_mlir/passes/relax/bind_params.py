"""``relax-bind-params``: parameters become constants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
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
from relax_mlir.objects.expr import Constant, Var
from relax_mlir.rewriting import Pass

__all__ = ["BindParams"]


@dataclass(frozen=True)
class BindParams(Pass):
    """Replace parameters of a function by arrays.

    Symbols that the shapes of these parameters mention get their values from the arrays.

    Args:
        func_name: the function.
        params: an array per parameter, or per name of one.
    """

    func_name: str
    params: Mapping[Any, Any] = field(metadata={"text": False}, default_factory=dict)

    def run(self, module: IRModule) -> None:
        for function in graph_functions(module):
            if function.name.value == self.func_name:
                self._bind(module, function)

    def _bind(self, module: IRModule, function: func.FuncOp) -> None:
        known = names.arg_names(function)
        arrays = {
            _number(k, known, function): _array(v) for k, v in self.params.items()
        }
        arguments = list(function.entry_block.arguments)
        sizes: dict[str, Dim] = {}
        for number, array in arrays.items():
            _match(str(known[number]), arguments[number].type, array, sizes)
        with ir.InsertionPoint.at_block_begin(function.entry_block), function.location:
            for number, array in sorted(arrays.items()):
                value = constant(module, array, str(known[number]))
                arguments[number].replace_all_uses_with(value)
        erase_parameters(function, arrays)
        if sizes:
            substitute_sizes(function, sizes)


def _number(key: Any, known: list[str | None], function: func.FuncOp) -> int:
    """Which parameter a name or a variable is."""
    name = key.name_hint if isinstance(key, Var) else key
    if known.count(name) != 1:
        listed = ", ".join(f"`{n}`" for n in known)
        raise PassError(
            f"`{function.name.value}`: expected one of the parameters {listed}, got `{name}`"
        )
    return known.index(name)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, Constant):
        return value.array
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _match(name: str, type_: ir.Type, array: np.ndarray, sizes: dict[str, Dim]) -> None:
    """Check an array against a parameter, and learn its symbols."""
    got = f"{array.dtype.name}{list(array.shape)}"
    if not isinstance(type_, ir.RankedTensorType):
        return
    dtype = (
        tensors.dtype_of(type_) if "unknown" not in str(type_.element_type) else None
    )
    if type_.rank != array.ndim or (dtype and dtype.numpy != array.dtype):
        raise PassError(f"parameter `{name}`: expected `{type_}`, got {got}")
    if not type_.has_static_shape and type_.encoding is None:
        return
    for dim, size in zip(tensors.shape_of(type_), array.shape, strict=True):
        known = dim if isinstance(dim, int) else sizes.get(str(dim))
        if isinstance(known, int) and known != size:
            raise PassError(f"parameter `{name}`: expected size {known}, got {got}")
        if not isinstance(dim, int) and shapes.symbols_of(dim) == (str(dim),):
            sizes[str(dim)] = size
