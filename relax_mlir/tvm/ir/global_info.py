"""Global infos of a module, such as virtual devices: ``tvm.ir.global_info``."""

from relax_mlir.objects.expr.struct_info import VDevice
from relax_mlir.objects.global_info import (
    DummyGlobalInfo,
)

__all__ = ["DummyGlobalInfo", "VDevice"]
