"""What compiled models need while they run: objects, executables, devices."""

from importlib import import_module
from pathlib import Path
from typing import Any

# What TVM has here and stands above us (`relax_mlir.runtime.vm`) is found as well.
__path__.append(str(Path(__file__).parents[1] / "tvm" / "runtime"))

# What is here by TVM's names: where it stands, and what it is called there.
_NAMES = {
    **{n: ("runtime.ndarray", n) for n in ("Device", "NDArray", "device", "empty")},
    "Tensor": ("runtime.ndarray", "NDArray"),
    "tensor": ("runtime.ndarray", "array"),
    "from_dlpack": ("runtime.ndarray", "shared"),
    "convert": ("runtime.ndarray", "convert"),
    "load_module": ("runtime.executable", "load"),
    "Module": ("relax.vm", "KernelModule"),
    "const": ("objects.prim", "const"),
    "ShapeTuple": ("tvm.ffi", "Shape"),
    "DataType": ("tvm.ffi", "dtype"),
}


def __getattr__(name: str) -> Any:  # Any: classes and functions
    """A name that TVM has here, loaded when it is first used."""
    if name not in _NAMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    module, own = _NAMES[name]
    return getattr(import_module(f"relax_mlir.{module}"), own)
