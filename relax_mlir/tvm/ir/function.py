"""Functions of both levels: ``tvm.ir.function``."""

from relax_mlir.objects.function import (
    BaseFunc,
)

__all__ = ["BaseFunc"]
