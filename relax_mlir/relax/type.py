"""Types of values; what is known of them says more than their type does."""

from relax_mlir.objects.struct_info import (
    DynTensorType,
)
from relax_mlir.relax.ty import (
    AnyType,
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
)

__all__ = [
    "AnyType",
    "DynTensorType",
    "FuncType",
    "ObjectType",
    "PrimType",
    "ShapeType",
    "TensorType",
    "TupleType",
    "Type",
]
