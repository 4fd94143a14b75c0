"""MLIR types of scalar expressions, and attributes for signedness and pointees."""

from __future__ import annotations

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import Scalar, attribute_names, cast
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.pointers import Pointer

__all__ = [
    "cast_value",
    "marked",
    "pointee",
    "pointer_type",
    "prim_expr_dtype",
    "scalar_type",
]


def pointer_type() -> ir.Type:
    """The type of an opaque pointer."""
    return ir.Type.parse("!llvm.ptr")


def scalar_type(name: str) -> ir.Type:
    """The SSA value type of an element type or ``handle``."""
    return pointer_type() if name == "handle" else dtype(name).scalar_type


def prim_expr_dtype(expr: PrimExpr) -> dtypes.DType:
    """The element type of an expression.

    Raises:
        ValueError: it has none, such as a string.
    """
    try:
        return dtype(expr.dtype)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"`{expr}` is a {expr.dtype}, which no tensor program computes"
        ) from error


def marked(value: ir.Value, name: str) -> ir.Value:
    """Attaches the element type if the MLIR type lacks it (unsigned integers)."""
    owner = value.owner
    if name.startswith("uint") and not isinstance(owner, ir.Block):
        owner.attributes[attribute_names.DTYPE] = ir.StringAttr.get(name)
    return value


def cast_value(operand: Scalar, to: dtypes.DType) -> ir.Value:
    """A value cast to another element type, which is attached if the MLIR type lacks it."""
    result = cast(operand, to).value
    if result == operand.value and operand.dtype != to:
        result = emit("arith.bitcast", to.scalar_type, result)
    return marked(result, to.name)


def pointee(var: Var) -> dict[str, ir.Attribute]:
    """The pointee attribute of a pointer variable, if it is annotated."""
    kind = var.type_annotation if isinstance(var, Pointer) else None
    if kind is None:
        return {}
    return {
        attribute_names.POINTEE: to_attribute([kind.element_type, kind.storage_scope])
    }
