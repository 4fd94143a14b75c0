"""What functions refer to by number: ``tvm.ir.global_info``."""

from relax_mlir.objects.global_info import (
    DummyGlobalInfo,
)
from relax_mlir.objects.struct_info import (
    VDevice,
)

__all__ = ["DummyGlobalInfo", "VDevice"]
