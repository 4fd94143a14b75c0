"""The TVMScript parser, and the script namespaces at TVM's location."""

from importlib import import_module
from typing import Any

_NAMESPACES = ("ir", "ir_module", "parse", "relax", "s_tir", "tir", "tirx")


def __getattr__(name: str) -> Any:  # Any: modules and functions
    """Imports a script namespace or a parsing function on first access."""
    if name not in _NAMESPACES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module("relax_mlir.tvm.script"), name)
