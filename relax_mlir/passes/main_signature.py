"""``main`` on buffers: what its arguments are, where every later level finds it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import buffer_type
from relax_mlir.module import IRModule

__all__ = [
    "PLAN_ATTRIBUTES",
    "arena_argument",
    "array_argument",
    "derived_sizes",
    "sign",
    "size_argument",
]

# The size of the arena, and what it is measured by; the second is there for known sizes.
PLAN_ATTRIBUTES = ("relax.arena_bytes", "relax.live_bytes", "relax.unshared_bytes")

Argument = tuple[ir.Type, ir.DictAttr]
"""The type of an argument, and what it is."""


def array_argument(
    dims: Sequence[Dim], dtype: dtypes.DType, roles: Mapping[str, str]
) -> Argument:
    """A buffer that is an input, an output or a constant, by its role and its name."""
    named: dict[str, ir.Attribute] = {k: ir.StringAttr.get(v) for k, v in roles.items()}
    named["tir.shape"] = tensors.shape_attr(dims)
    named["relax.dtype"] = ir.StringAttr.get(str(dtype))
    return buffer_type(dims, dtype), ir.DictAttr.get(named)


def arena_argument() -> Argument:
    """The scratch memory."""
    byte = ir.IntegerType.get_signless(8)
    type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], byte)
    return type_, ir.DictAttr.get({"relax.arena": ir.UnitAttr.get()})


def size_argument(name: str) -> Argument:
    """A symbolic size."""
    return ir.IndexType.get(), ir.DictAttr.get({"tir.symbol": ir.StringAttr.get(name)})


def derived_sizes(
    symbols: Sequence[str], dims: Iterable[Dim], constraints: Sequence[Constraint]
) -> list[Dim]:
    """Sizes that are neither numbers nor symbols, of what has ``dims``."""
    stated = [d for c in constraints for d in (c.lhs, c.rhs)]
    found = dict.fromkeys([*dims, *stated])
    return [d for d in found if not isinstance(d, int) and str(d) not in symbols]


def sign(
    module: IRModule,
    arguments: Iterable[ir.DictAttr],
    symbols: Sequence[str],
    derived: Sequence[Dim],
    constraints: Sequence[Constraint],
    arena: str,
) -> None:
    """Keep what the program takes and returns as an attribute of the module."""
    roles: dict[str, list[dict[str, object]]] = {"relax.input": [], "relax.output": []}
    constants: list[str] = []
    for attr in arguments:
        if "relax.constant" in attr:
            constants.append(attr["relax.constant"].value)
        for role, found in roles.items():
            if role in attr:
                shape = [str(d) for d in tensors.python_value(attr["tir.shape"])]
                kind = attr["relax.dtype"].value
                found.append({"name": attr[role].value, "dtype": kind, "shape": shape})
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
