"""What must hold of the sizes of a module, beside its types: an attribute of it."""

from collections.abc import Iterable

from mlir import ir

from relax_mlir.dialects.constraints import Constraint
from relax_mlir.module import IRModule

__all__ = ["constraints_of", "set_constraints"]

_CONSTRAINTS = "relax.constraints"


def constraints_of(module: IRModule) -> list[Constraint]:
    """What must hold of the sizes of a module, beside its types."""
    attributes = module.mlir.operation.attributes
    if _CONSTRAINTS not in attributes:
        return []
    texts = ir.ArrayAttr(attributes[_CONSTRAINTS])
    return [Constraint.parse(ir.StringAttr(text).value) for text in texts]


def set_constraints(module: IRModule, found: Iterable[Constraint]) -> None:
    """Say what must hold of the sizes of a module, in place of what was said."""
    texts = [ir.StringAttr.get(str(c), module.context) for c in found]
    attributes = module.mlir.operation.attributes
    if texts:
        attributes[_CONSTRAINTS] = ir.ArrayAttr.get(texts, module.context)
    elif _CONSTRAINTS in attributes:
        del attributes[_CONSTRAINTS]
