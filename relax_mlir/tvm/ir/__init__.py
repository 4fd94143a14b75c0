"""What both levels share: ``tvm.ir``."""

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Attrs, Expr, GlobalVar, Op
from relax_mlir.objects.expr import Attrs as DictAttrs
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.prim import PrimExpr, Range
from relax_mlir.objects.struct_info import VDevice
from relax_mlir.objects.structure import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.tvm.ir import instrument, module, transform

__all__ = [
    "Attrs",
    "BaseFunc",
    "DictAttrs",
    "Expr",
    "GlobalVar",
    "IRModule",
    "Op",
    "PrimExpr",
    "Range",
    "VDevice",
    "assert_structural_equal",
    "instrument",
    "module",
    "structural_equal",
    "structural_hash",
    "transform",
]
