"""Types of both levels: ``tvm.ir.type``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.pointers import PointerType
from relax_mlir.relax.ty import (
    FuncType,
    PrimType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["FuncType", "PointerType", "PrimType", "TensorType", "TupleType", "Type"]

check_exports(globals())
