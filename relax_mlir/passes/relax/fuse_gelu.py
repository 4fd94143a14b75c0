"""``relax-fuse-gelu``: recognises GELU subgraphs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.activation import GeluOp, GeluTanhOp
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.gelu_pattern import (
    COEFFICIENT_TOLERANCE,
    ArithmeticNames,
    find_gelu,
)
from relax_mlir.rewrite.patterns import Pass, erase_dead, replace

__all__ = ["FuseGelu"]

# Relative tolerance of a coefficient: the product of two rounded constants.
_TOLERANCES = {
    dtype("float32"): COEFFICIENT_TOLERANCE,
    dtype("float16"): 2.0**-10,
    dtype("bfloat16"): 2.0**-7,
}


@dataclass(frozen=True)
class FuseGelu(Pass):
    """Replace GELU subgraphs, in erf or tanh form, by one operator, in f32 or narrower.

    Exporters that predate the operator write GELU as five nodes around erf, or as eight
    around tanh. Evaluated one by one they lose all digits to cancellation below about -5;
    the operator does not.
    """

    def run(self, module: IRModule) -> None:
        names = ("relax.add", "relax.multiply", "relax.divide", "relax.power")
        notations = {
            element: ArithmeticNames(
                lambda v: _number(v, module.constants), *names, tolerance
            )
            for element, tolerance in _TOLERANCES.items()
        }
        blocks = []
        for op in [op for op in walk(module.mlir.operation) if _is_function(op)]:
            notation = notations[tensors.dtype_of(op.results[0])]
            found = find_gelu(op, op.operation.name == "relax.tanh", notation)
            if found is None:
                continue
            blocks.append(found.last.operation.block)
            with ir.InsertionPoint(found.last), found.last.location:
                made = (GeluTanhOp if found.is_tanh else GeluOp)(found.x)
            replace(found.last, made.y)
        effects = EffectAnalysis(module.mlir.operation)
        for block in blocks:
            erase_dead(block, effects.is_computation)


def _is_function(op: ir.OpView) -> bool:
    is_named = op.operation.name in ("relax.erf", "relax.tanh")
    return is_named and tensors.dtype_of(op.results[0]) in _TOLERANCES


def _number(value: ir.Value, constants: Mapping[str, np.ndarray]) -> float | None:
    """The value of a constant of one element."""
    owner = value.owner
    view = None if isinstance(owner, ir.Block) else owner.opview
    if not isinstance(view, ConstantOp):
        return None
    array = view.array(constants)
    return float(array.item()) if array.size == 1 else None
