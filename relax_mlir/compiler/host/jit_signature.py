"""Signatures of models with JIT-compiled subgraphs."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.runtime.signature import Parameter, Signature

__all__ = ["jit_signature"]


def jit_signature(module: IRModule) -> Signature | None:
    """The signature of ``main`` of an imported model; None for other modules."""
    (main,) = (f for f in module.func_ops() if f.name.value == "main")
    names = [
        [ir.StringAttr(n).value for n in ir.ArrayAttr(main.attributes[role])]
        for role in ("relax.input_names", "relax.output_names")
        if role in main.attributes
    ]
    if len(names) != 2:
        return None
    inputs = tuple(map(_parameter, names[0], main.type.inputs))
    outputs = tuple(map(_parameter, names[1], main.type.results))
    mentioned = [name for p in inputs for dim in p.dims for name in _symbols(dim)]
    constraints = tuple(map(str, constraints_of(module)))
    symbols = tuple(dict.fromkeys(mentioned))
    return Signature(inputs, outputs, symbols, (), constraints, "0", ())


def _parameter(name: str, type_: ir.Type) -> Parameter:
    if not isinstance(type_, ir.RankedTensorType):
        return Parameter(name, "", ())
    shape = tuple(map(str, tensors.shape_of(type_)))
    return Parameter(name, tensors.dtype_of(type_).name, shape)


def _symbols(dim: str) -> Sequence[str]:
    return shapes.symbols_of(shapes.parse(dim))
