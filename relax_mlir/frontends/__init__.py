"""Where models come from: each frontend makes an ``IRModule`` of relax operations."""

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """A front end of an optional dependency, which is loaded when it is first used."""
    if name != "torch":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return import_module(f"{__name__}.{name}")
