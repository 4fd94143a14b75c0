"""What programs can be compiled for and run on here, asked by TVM's names."""

from collections.abc import Callable
from importlib.util import find_spec

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cublaslt, cudnn, device_names
from relax_mlir.runtime.cuda.devices import Device, device

__all__ = [
    "has_cublas",
    "has_cuda",
    "has_cudnn",
    "has_gpu",
    "has_llvm",
    "has_multi_gpu",
]


def has_llvm() -> bool:
    """Whether there is a compiler for the processor; there always is."""
    return True


def has_cuda() -> bool:
    """Whether there is an NVIDIA device, and a target of the name."""
    return has_multi_gpu(1)


def has_cublas() -> bool:
    """Whether there is an NVIDIA device, and the library that multiplies matrices."""
    return _has(cublaslt.library)


def has_cudnn() -> bool:
    """Whether there is an NVIDIA device, and the library that convolves."""
    return _has(cudnn.library)


def _has(library: Callable[[Device], object]) -> bool:
    try:
        library(device())
    except DeviceError:
        return False
    return has_cuda()


def has_gpu() -> bool:
    """Whether there is a device of any kind that there is a target for."""
    return has_cuda()


def has_multi_gpu(count: int = 2) -> bool:
    """Whether there are ``count`` devices that there is a target for."""
    is_target = find_spec("relax_mlir.targets.cuda") is not None
    return is_target and len(device_names()) >= count


def __getattr__(name: str) -> object:
    """``has_rocm`` and its like: a question about what is not known here is answered no."""
    if not name.startswith("has_"):
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return lambda *args, **kwargs: False
