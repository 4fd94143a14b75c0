"""Skip markers for tests that need certain hardware or libraries (TVM's names)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from relax_mlir.tvm.testing import env

__all__ = [
    "requires_cublas",
    "requires_cuda",
    "requires_cudnn",
    "requires_gpu",
    "requires_hexagon",
    "requires_llvm",
    "requires_metal",
    "requires_multi_gpu",
    "requires_opencl",
    "requires_package",
    "requires_rocm",
    "requires_vulkan",
    "skip_if_32bit",
    "uses_gpu",
]


class _Requirement:
    """A test decorator, applied with or without parentheses."""

    def __init__(self, requirement: str, is_met: Callable[[], bool]) -> None:
        self._requirement = requirement
        self._is_met = is_met

    def marks(self) -> list[Any]:
        """The equivalent pytest marks."""
        import pytest

        reason = f"needs {self._requirement}"
        return [pytest.mark.skipif(not self._is_met(), reason=reason)]

    def __call__(self, func: Any = None, **options: Any) -> Any:
        def decorate(test: Any) -> Any:
            for mark in self.marks():
                test = mark(test)
            return test

        return decorate if func is None else decorate(func)


def _never() -> bool:
    return False


requires_llvm = _Requirement("LLVM", env.has_llvm)
requires_gpu = _Requirement("a GPU", env.has_gpu)
requires_multi_gpu = _Requirement("two GPUs", env.has_multi_gpu)
requires_cuda = _Requirement("CUDA", env.has_cuda)
requires_cublas = _Requirement("cuBLAS", env.has_cublas)
requires_cudnn = _Requirement("cuDNN", env.has_cudnn)
requires_hexagon = _Requirement("Hexagon", _never)
requires_metal = _Requirement("Metal", _never)
requires_opencl = _Requirement("OpenCL", _never)
requires_rocm = _Requirement("ROCm", _never)
requires_vulkan = _Requirement("Vulkan", _never)
uses_gpu = _Requirement("nothing", env.has_llvm)


def skip_if_32bit(reason: str) -> Any:
    """Marks a test that needs 64-bit pointers, which all supported machines have."""
    return uses_gpu


def requires_package(*packages: str) -> Any:
    """Marks a test that needs Python packages."""
    missing = [p for p in packages if find_spec(p.partition(".")[0]) is None]
    return _Requirement(", ".join(packages), lambda: not missing)
