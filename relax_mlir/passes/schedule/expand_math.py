"""``schedule-expand-math``: mathematical functions on vectors become polynomials."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, replace, walk
from relax_mlir.schedules import vector_math

__all__ = ["ExpandMath"]

_EXPANSIONS: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.exp": vector_math.exp,
    "math.tanh": vector_math.tanh,
    "math.erf": vector_math.erf,
    "math.log": vector_math.log,
    "math.sin": vector_math.sin,
    "math.cos": vector_math.cos,
}


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Write exp, log, tanh, erf, sin and cos on f32 vectors as polynomials.

    Without it each lane would be a call of the scalar function in libm. The error
    bounds stand at the functions in :mod:`relax_mlir.schedules.vector_math`.
    """

    def run(self, module: IRModule) -> None:
        for op in list(walk(module.mlir.operation)):
            expand = _EXPANSIONS.get(op.operation.name)
            if expand is not None and _is_f32_vector(op.operands[0].type):
                with ir.InsertionPoint(op), op.location:
                    replacement = expand(op.operands[0])
                replace(op, replacement)


def _is_f32_vector(type_: ir.Type) -> bool:
    return isinstance(type_, ir.VectorType) and isinstance(
        type_.element_type, ir.F32Type
    )
