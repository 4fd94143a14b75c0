"""Size constraints of a module, as the attribute ``relax.constraints``."""

from collections.abc import Iterable

from mlir import ir

from relax_mlir.ir.module import IRModule
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["constraints_of", "set_constraints"]

_CONSTRAINTS = "relax.constraints"


def constraints_of(module: IRModule) -> list[Constraint]:
    """The size constraints of a module."""
    attributes = module.mlir.operation.attributes
    if _CONSTRAINTS not in attributes:
        return []
    texts = ir.ArrayAttr(attributes[_CONSTRAINTS])
    return [Constraint.parse(ir.StringAttr(text).value) for text in texts]


def set_constraints(module: IRModule, found: Iterable[Constraint]) -> None:
    """Replaces the size constraints of a module."""
    texts = [ir.StringAttr.get(str(c), module.context) for c in found]
    attributes = module.mlir.operation.attributes
    if texts:
        attributes[_CONSTRAINTS] = ir.ArrayAttr.get(texts, module.context)
    elif _CONSTRAINTS in attributes:
        del attributes[_CONSTRAINTS]
