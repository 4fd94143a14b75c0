"""``relax.type``: the types of Relax; aliases of the struct info classes."""

from relax_mlir.objects.expr.struct_info import DynTensorType
from relax_mlir.tvm.relax.ty import (
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
