"""Types of Relax and TIR: ``tvm.ir.type``."""

from relax_mlir.objects.prim.pointers import PointerType
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.ty import FuncType, PrimType, TensorType, TupleType, Type

__all__ = ["FuncType", "PointerType", "PrimType", "TensorType", "TupleType", "Type"]

check_exports(globals())
