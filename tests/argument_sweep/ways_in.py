"""The public functions and constructors of the package, found by inspection."""

from __future__ import annotations

import enum
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import relax_mlir

__all__ = ["OF_THE_PACKAGE", "WayIn", "public_modules", "ways_in"]

# Packages whose names only this package uses. What users see of them has a name in others.
_INTERNAL = (
    *("analysis", "codegen", "compiler", "dialects", "ir", "objects", "passes"),
    *("pipeline", "rewrite", "runtime", "schedules", "support", "symbolic"),
    *("testing", "tools", "tvm.testing"),
)

# TVM's packages that define names, before those that give them again.
_FIRST = (
    "relax_mlir.nn",
    *(
        f"relax_mlir.tvm.{n}"
        for n in ("relax", "tir", "te", "topi", "script", "dlight")
    ),
)

_OPERATORS = ("__call__",)

# Methods that the package alone calls, on objects and with arguments that it has made.
OF_THE_PACKAGE = {
    "object.encode_structure": "structural comparison calls it, with what it writes to",
    "PrimExpr.key": "structural comparison calls it",
    "PrimExpr.with_children": "traversal calls it, with as many terms as `children` gave",
    "Pass.run": "a pipeline calls it, inside of the module's context; users call the pass",
    "SameShapeConstraint.holds": "the matcher of graphs calls it, with what it has matched",
    "PatternConstraints.open": "`with` calls it",
    "PatternConstraints.close": "`with` calls it",
}


@dataclass(frozen=True)
class WayIn:
    """A public function, a class whose constructor it is, or a method.

    Attributes:
        name: with its module.
        function: what is called.
        owner: the class of a method's first argument.
    """

    name: str
    function: Callable[..., Any]  # Any: of any signature
    owner: type | None = None


def public_modules() -> list[ModuleType]:
    """The packages that programs import from, and the modules that these name."""
    found: dict[str, ModuleType] = {"relax_mlir": relax_mlir}
    packages = pkgutil.walk_packages(relax_mlir.__path__, "relax_mlir.")
    for module in sorted(packages, key=lambda m: not m.name.startswith(_FIRST)):
        name = module.name.removeprefix("relax_mlir.")
        is_internal = any(name == i or name.startswith(f"{i}.") for i in _INTERNAL)
        if module.ispkg and not is_internal:
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
            if inspect.ismodule(value) or not callable(value) or _is_enum(value):
                continue
            if _is_ours(value) and id(value) not in found:
                place = module.__name__.removeprefix("relax_mlir.").removeprefix("tvm.")
                found[id(value)] = WayIn(f"{place}.{name}", value)
    classes = [w for w in found.values() if inspect.isclass(w.function)]
    methods = [m for w in classes for m in _methods(w.name, w.function)]
    once: dict[int, WayIn] = {}
    for method in methods:
        once.setdefault(id(method.function), method)
    return [*found.values(), *once.values()]


def _is_enum(value: object) -> bool:
    """Whether it is an enumeration, whose constructor is Python's."""
    return isinstance(value, enum.EnumMeta)


def _methods(place: str, cls: Any) -> Iterator[WayIn]:
    """The public methods that a class and its bases of the package define."""
    for base in inspect.getmro(cls):
        if not _is_ours(base):
            continue
        for name, value in vars(base).items():
            is_public = not name.startswith("_") or name in _OPERATORS
            if inspect.isfunction(value) and is_public and not _is_internal(base, name):
                yield WayIn(f"{place}.{name}", value, base)


def _is_internal(cls: type, name: str) -> bool:
    return any(f"{base.__name__}.{name}" in OF_THE_PACKAGE for base in cls.__mro__)


def _imported(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if "not installed" not in str(error):
            raise
    return None
