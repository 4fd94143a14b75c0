"""``tvm.runtime``: arrays, devices and compiled modules."""

from relax_mlir.objects.prim import const
from relax_mlir.runtime.host.kernels import KernelModule as Module
from relax_mlir.runtime.loading import load as load_module
from relax_mlir.runtime.ndarray import Device, NDArray, convert, device, empty
from relax_mlir.runtime.ndarray import NDArray as Tensor
from relax_mlir.runtime.ndarray import array as tensor
from relax_mlir.runtime.ndarray import shared as from_dlpack
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.ffi import Shape as ShapeTuple
from relax_mlir.tvm.ffi import dtype as DataType  # noqa: N812  TVM's name

__all__ = [
    "DataType",
    "Device",
    "Module",
    "NDArray",
    "ShapeTuple",
    "Tensor",
    "const",
    "convert",
    "device",
    "empty",
    "from_dlpack",
    "load_module",
    "tensor",
]

check_exports(globals())
