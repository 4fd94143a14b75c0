"""TVM compatibility layer: the Python API of TVM 0.9 to 0.27.

Programs written for TVM run with ``from relax_mlir import tvm``; they run unchanged with
``python -m relax_mlir.tvm script.py``, or if :func:`install` is called before
``import tvm``.
"""

from importlib import import_module
from typing import Any

from relax_mlir import IRModule, compile
from relax_mlir.errors import RelaxError as TVMError
from relax_mlir.objects.prim import const
from relax_mlir.runtime.ndarray import cpu, cuda, device
from relax_mlir.runtime.ndarray import cuda as gpu
from relax_mlir.runtime.registry import (
    get_global_func,
    register_func,
)
from relax_mlir.runtime.registry import register_func as register_global_func
from relax_mlir.support.argument_types import check_exports
from relax_mlir.support.import_alias import alias_package
from relax_mlir.tvm import base, error, ffi, ir, nd, runtime, target, transform
from relax_mlir.tvm.relax.vm import build_any as build
from relax_mlir.tvm.target import Target

__all__ = [
    "DataType",
    "IRModule",
    "TVMError",
    "Target",
    "base",
    "build",
    "compile",
    "const",
    "cpu",
    "cuda",
    "device",
    "error",
    "ffi",
    "get_global_func",
    "gpu",
    "install",
    "ir",
    "nd",
    "register_func",
    "register_global_func",
    "runtime",
    "target",
    "transform",
]


def install() -> None:
    """Resolves ``import tvm`` and ``from tvm import ...`` to this package, in this process.

    Idempotent; the hook cannot be uninstalled.

    Raises:
        RelaxError: another package ``tvm`` has been imported already.
    """
    alias_package("tvm", __name__)


def __getattr__(name: str) -> Any:  # Any: modules
    """Imports a submodule on first access."""
    if not name.startswith("_"):
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


DataType = ffi.dtype

check_exports(globals())
