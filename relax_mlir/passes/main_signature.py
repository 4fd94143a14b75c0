"""Arguments of the lowered ``main`` and the module's signature attribute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import buffer_type
from relax_mlir.ir.module import IRModule
from relax_mlir.symbolic.constraints import Constraint

__all__ = [
    "PLAN_ATTRIBUTES",
    "arena_argument",
    "array_argument",
    "derived_sizes",
    "set_signature",
    "size_argument",
]

# Arena size, peak of live bytes (static sizes only), and size without reuse; in bytes.
PLAN_ATTRIBUTES = ("relax.arena_bytes", "relax.live_bytes", "relax.unshared_bytes")

Argument = tuple[ir.Type, ir.DictAttr]
"""The type of an argument and its attributes."""


def array_argument(
    dims: Sequence[Dim], dtype: dtypes.DType, roles: Mapping[str, str]
) -> Argument:
    """A buffer argument: an input, output or constant, by role and name."""
    named: dict[str, ir.Attribute] = {k: ir.StringAttr.get(v) for k, v in roles.items()}
    named["tir.shape"] = tensors.shape_attr(dims)
    named["relax.dtype"] = ir.StringAttr.get(str(dtype))
    return buffer_type(dims, dtype), ir.DictAttr.get(named)


def arena_argument() -> Argument:
    """The arena of intermediate tensors."""
    byte = ir.IntegerType.get_signless(8)
    type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], byte)
    return type_, ir.DictAttr.get({"relax.arena": ir.UnitAttr.get()})


def size_argument(name: str) -> Argument:
    """The value of a symbolic size."""
    return ir.IndexType.get(), ir.DictAttr.get({"tir.symbol": ir.StringAttr.get(name)})


def derived_sizes(
    symbols: Sequence[str], dims: Iterable[Dim], constraints: Sequence[Constraint]
) -> list[Dim]:
    """The sizes among ``dims`` and in constraints that are expressions, rather than symbols."""
    stated = [d for c in constraints for d in (c.lhs, c.rhs)]
    found = dict.fromkeys([*dims, *stated])
    return [d for d in found if not isinstance(d, int) and str(d) not in symbols]


def set_signature(
    module: IRModule,
    arguments: Iterable[ir.DictAttr],
    symbols: Sequence[str],
    derived: Sequence[Dim],
    constraints: Sequence[Constraint],
    arena: str,
) -> None:
    """Stores the signature (inputs, outputs, symbols, constants) as a module attribute."""
    roles: dict[str, list[dict[str, object]]] = {"relax.input": [], "relax.output": []}
    constants: list[str] = []
    for attr in arguments:
        if "relax.constant" in attr:
            constants.append(attr["relax.constant"].value)
        for role, found in roles.items():
            if role in attr:
                shape = [str(d) for d in tensors.python_value(attr["tir.shape"])]
                dtype = attr["relax.dtype"].value
                found.append({"name": attr[role].value, "dtype": dtype, "shape": shape})
    signature = {
        "inputs": roles["relax.input"],
        "outputs": roles["relax.output"],
        "symbols": list(symbols),
        "derived": [str(d) for d in derived],
        "constraints": [str(c) for c in constraints],
        "arena": arena,
        "constants": constants,
    }
    text = ir.StringAttr.get(json.dumps(signature))
    module.mlir.operation.attributes["relax.signature"] = text
