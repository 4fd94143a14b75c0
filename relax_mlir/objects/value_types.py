"""The MLIR types of scalar terms, and what is said of a value beside its type."""

from __future__ import annotations

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import Scalar, cast, marks
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import PrimExpr, Var

__all__ = [
    "converted",
    "marked",
    "pointee",
    "pointer_type",
    "scalar_type",
    "term_dtype",
]


def pointer_type() -> ir.Type:
    """The type of an address."""
    return ir.Type.parse("!llvm.ptr")


def scalar_type(name: str) -> ir.Type:
    """The type of a value in registers, pointers included."""
    return pointer_type() if name == "handle" else dtype(name).scalar_type


def term_dtype(term: PrimExpr) -> dtypes.DType:
    """The element type of a term.

    Raises:
        ValueError: it has none, such as a string.
    """
    try:
        return dtype(term.dtype)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"`{term}` is a {term.dtype}, which no tensor program computes"
        ) from error


def marked(value: ir.Value, name: str) -> ir.Value:
    """Tell the element type where the MLIR type does not."""
    owner = value.owner
    if name.startswith("uint") and not isinstance(owner, ir.Block):
        owner.attributes[marks.DTYPE] = ir.StringAttr.get(name)
    return value


def converted(operand: Scalar, to: dtypes.DType) -> ir.Value:
    """A value as one of another element type, told where the MLIR type does not."""
    made = cast(operand, to).value
    if made == operand.value and operand.dtype != to:
        made = emit("arith.bitcast", to.scalar_type, made)
    return marked(made, to.name)


def pointee(var: Var) -> dict[str, ir.Attribute]:
    """What a pointer points to, where a script says it."""
    kind = var.type_annotation if isinstance(var, Pointer) else None
    if kind is None:
        return {}
    return {marks.POINTEE: to_attribute([kind.element_type, kind.storage_scope])}
