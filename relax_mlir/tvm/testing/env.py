"""Queries of the available targets, devices and libraries (TVM's names)."""

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
    """Whether the CPU backend is available; always true."""
    return True


def has_cuda() -> bool:
    """Whether there are an NVIDIA GPU and the CUDA target."""
    return has_multi_gpu(1)


def has_cublas() -> bool:
    """Whether there are an NVIDIA GPU and cuBLASLt."""
    return _has_library(cublaslt.library)


def has_cudnn() -> bool:
    """Whether there are an NVIDIA GPU and cuDNN."""
    return _has_library(cudnn.library)


def _has_library(library: Callable[[Device], object]) -> bool:
    try:
        library(device())
    except DeviceError:
        return False
    return has_cuda()


def has_gpu() -> bool:
    """Whether there is a GPU of any kind that has a target."""
    return has_cuda()


def has_multi_gpu(count: int = 2) -> bool:
    """Whether there are at least ``count`` GPUs that have a target."""
    is_target = find_spec("relax_mlir.targets.cuda") is not None
    return is_target and len(device_names()) >= count


def __getattr__(name: str) -> object:
    """Returns a query that answers no for unsupported backends: ``has_rocm``, ..."""
    if not name.startswith("has_"):
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return lambda *args, **kwargs: False
