"""What is known of values, by the module that TVM has it in."""

from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)

__all__ = [
    "FuncStructInfo",
    "ObjectStructInfo",
    "PrimStructInfo",
    "ShapeStructInfo",
    "StructInfo",
    "TensorStructInfo",
    "TupleStructInfo",
    "VDevice",
]
