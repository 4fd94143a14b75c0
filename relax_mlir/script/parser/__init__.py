"""Scripts, parsed; and the namespaces that they are written in, where TVM has them."""

from importlib import import_module
from typing import Any

_NAMESPACES = ("ir", "ir_module", "parse", "relax", "s_tir", "tir", "tirx")


def __getattr__(name: str) -> Any:  # Any: modules and functions
    """A namespace, or what parses; loaded when it is first used."""
    if name not in _NAMESPACES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module("relax_mlir.script"), name)
