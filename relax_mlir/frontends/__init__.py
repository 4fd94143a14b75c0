"""Frontends: importers of models into an ``IRModule`` of Relax operations."""

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """Load the frontend of an optional dependency on first use."""
    if name != "torch":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return import_module(f"{__name__}.{name}")
