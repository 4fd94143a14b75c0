# pyright: strict
"""Lookup of our passes by name; a pass's name is its path.

``relax-fuse-ops`` is the class ``FuseOps`` in ``relax_mlir/passes/relax/fuse_ops.py``.
Passes on TVM-style expressions are in ``relax_mlir/tvm/relax/transform``.
"""

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterable
from typing import TypeGuard

from relax_mlir.errors import near_misses
from relax_mlir.pipeline import upstream
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.support.hooks import PASS_PACKAGES

__all__ = [
    "LEVELS",
    "find_any_pass",
    "find_pass",
    "find_registered",
    "is_ours",
    "list_passes",
    "load_pass",
    "register_pass",
    "unknown_pass",
]

# Passes registered by Python code, by name; the last registration wins.
_registered: dict[str, Pass | type[Pass]] = {}


def register_pass(name: str, value: Pass | type[Pass]) -> None:
    """Register a pass under a name, which pipeline text can use, too."""
    _registered[name] = value


def find_registered(name: str) -> Pass | None:
    """The registered pass of this name, or None."""
    found = _registered.get(name)
    return found() if isinstance(found, type) else found


def find_any_pass(name: str) -> Pass:
    """A pass by its name in pipeline text, its class name or TVM's, with default options.

    TVM's names come first: ``FuseOps`` is ``relax-fuse-dataflow``.

    Raises:
        ValueError: the name is unknown.
    """
    found = find_registered(name)
    if found is not None:
        return found
    kinds = list_passes().values()
    by_name = {kind.__name__: kind for kind in kinds}
    by_name.update({kind.known_as: kind for kind in kinds if kind.known_as})
    kind = by_name.get(name) or find_pass(name)
    return kind()


LEVELS = ("relax", "tir", "schedule")
# The packages of each level's passes, in lookup order.
_PACKAGES = {
    level: [f"relax_mlir.passes.{level}", *PASS_PACKAGES.get(level, ())]
    for level in LEVELS
}
_NAME = re.compile(rf"({'|'.join(LEVELS)})-([a-z0-9]+(?:-[a-z0-9]+)*)")


def is_ours(name: str) -> bool:
    """Whether a name has one of our prefixes."""
    return name.split("-", 1)[0] in LEVELS


def find_pass(name: str) -> type[Pass]:
    """The class of one of our passes.

    Raises:
        ValueError: the name is unknown.
    """
    kind = load_pass(name)
    if kind is None:
        raise ValueError(unknown_pass(name))
    return kind


def list_passes() -> dict[str, type[Pass]]:
    """All our passes by name, ordered by level."""
    loaded = ((name, load_pass(name)) for name in _file_names())
    return {name: kind for name, kind in loaded if kind is not None}


def unknown_pass(name: str) -> str:
    """Error message for an unknown pass, with suggestions."""
    modules, class_name = _places(name)
    for module in filter(importlib.util.find_spec, modules):
        path = f"{module.replace('.', '/')}.py"
        return (
            f"unknown pass `{name}`: expected a frozen dataclass `{class_name}` derived "
            f"from `Pass` in `{path}`"
        )
    known = [*_file_names(), *upstream.known_passes()]
    return f"unknown pass `{name}`.{near_misses(name, known)}"


def load_pass(name: str) -> type[Pass] | None:
    """The class of one of our passes, or None if it does not exist."""
    modules, class_name = _places(name)
    for module in filter(importlib.util.find_spec, modules):
        kind = getattr(importlib.import_module(module), class_name, None)
        if _is_concrete(kind):
            return kind
    return None


def _places(name: str) -> tuple[list[str], str]:
    """The modules that may have a pass, in lookup order, and its class name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return [], ""
    level, verb_object = match.groups()
    file_name = verb_object.replace("-", "_")
    modules = [f"{package}.{file_name}" for package in _PACKAGES[level]]
    class_name = "".join(word.capitalize() for word in verb_object.split("-"))
    return modules, class_name


def _is_concrete(kind: object) -> TypeGuard[type[Pass]]:
    """Whether an object is a concrete pass class, not a base class."""
    is_pass = isinstance(kind, type) and issubclass(kind, Pass)
    return is_pass and "__dataclass_params__" in vars(kind)


def _file_names() -> Iterable[str]:
    """Pass names derived from the files of our passes."""
    for level in LEVELS:
        found: set[str] = set()
        for package in map(importlib.import_module, _PACKAGES[level]):
            found.update(m.name for m in pkgutil.iter_modules(package.__path__))
        for module in sorted(name for name in found if not name.startswith("_")):
            yield f"{level}-{module.replace('_', '-')}"
