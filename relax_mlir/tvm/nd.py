"""NDArrays and devices: ``tvm.nd``."""

from relax_mlir.runtime.ndarray import Device, NDArray, array, cpu, cuda, device, empty
from relax_mlir.runtime.ndarray import cuda as gpu
from relax_mlir.runtime.ndarray import shared as from_dlpack
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cpu",
    "cuda",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
]

check_exports(globals())
