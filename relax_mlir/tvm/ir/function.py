"""The base class of Relax functions and PrimFuncs: ``tvm.ir.function``."""

from relax_mlir.objects.function import (
    BaseFunc,
)

__all__ = ["BaseFunc"]
