"""Tensor programs, by the module that TVM has them in."""

from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.tensor_intrin import TensorIntrin

__all__ = ["IndexMap", "PrimFunc", "TensorIntrin"]
