"""PrimFuncs under TVM's module name ``tir.function``."""

from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.tensor_intrin import TensorIntrin

__all__ = ["IndexMap", "PrimFunc", "TensorIntrin"]
