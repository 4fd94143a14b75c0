"""Compilation driver of whole models: kernel modules, launch plans, caches, tuning."""

from relax_mlir.support.version import VERSION

# The version of the runtime that this version of the compiler works with.
_RUNTIME = "0.1.0"

if VERSION != _RUNTIME:
    raise ImportError(
        f"relax_mlir.compiler: expected relax-mlir-runtime {_RUNTIME}, got {VERSION}. "
        "Hint: `pip install --upgrade relax_mlir`",
        name=__name__,
    )
