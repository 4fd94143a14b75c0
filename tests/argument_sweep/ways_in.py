"""The public functions and constructors of the package, found by inspection."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import relax_mlir

__all__ = ["WayIn", "public_modules", "ways_in"]

# Packages whose names only this package uses. What users see of them has a name in others.
_INTERNAL = (
    *("dialects", "emulator", "objects", "passes", "pipeline", "runtime"),
    *("schedules", "stages", "testing", "tools"),
)


@dataclass(frozen=True)
class WayIn:
    """A public function, or a class whose constructor it is."""

    name: str
    function: Callable[..., Any]  # Any: of any signature


def public_modules() -> list[ModuleType]:
    """The packages that programs import from, and the modules that these name."""
    found: dict[str, ModuleType] = {"relax_mlir": relax_mlir}
    for module in pkgutil.walk_packages(relax_mlir.__path__, "relax_mlir."):
        if module.ispkg and module.name.split(".")[1] not in _INTERNAL:
            _add(_imported(module.name), found)
    return list(found.values())


def _add(module: ModuleType | None, found: dict[str, ModuleType]) -> None:
    if module is None or module.__name__ in found:
        return
    found[module.__name__] = module
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.ismodule(value) and _is_ours(value, "__name__"):
            _add(value, found)


def _is_ours(value: object, attribute: str = "__module__") -> bool:
    return (getattr(value, attribute, None) or "").startswith("relax_mlir")


def ways_in() -> list[WayIn]:
    """All of them, each once, in a fixed order."""
    found: dict[int, WayIn] = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            value: Any = getattr(module, name)
            if inspect.ismodule(value) or not callable(value):
                continue
            if _is_ours(value) and id(value) not in found:
                place = f"{module.__name__.removeprefix('relax_mlir.')}.{name}"
                found[id(value)] = WayIn(place, value)
    return list(found.values())


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if "not installed" not in str(error):
            raise
    return None
