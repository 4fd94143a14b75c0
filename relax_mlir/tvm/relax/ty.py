"""``relax.ty``: the struct info classes under TVM's newest names."""

from relax_mlir.objects.expr.struct_info import FuncStructInfo as FuncType
from relax_mlir.objects.expr.struct_info import ObjectStructInfo as AnyType
from relax_mlir.objects.expr.struct_info import ObjectStructInfo as ObjectType
from relax_mlir.objects.expr.struct_info import PrimStructInfo as PrimType
from relax_mlir.objects.expr.struct_info import ShapeStructInfo as ShapeType
from relax_mlir.objects.expr.struct_info import StructInfo as Type
from relax_mlir.objects.expr.struct_info import TensorStructInfo as TensorType
from relax_mlir.objects.expr.struct_info import TupleStructInfo as TupleType

__all__ = [
    "AnyType",
    "FuncType",
    "ObjectType",
    "PrimType",
    "ShapeType",
    "TensorType",
    "TupleType",
    "Type",
]
