# pyright: strict
"""Where our passes are: the path is the name.

``relax-fuse-ops`` is the class ``FuseOps`` in ``relax_mlir/passes/relax/fuse_ops.py``.
Passes that rewrite terms stand above this package, in ``relax_mlir/relax/transform``.
"""

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterable
from typing import TypeGuard

from relax_mlir.errors import near_misses
from relax_mlir.pipeline import upstream
from relax_mlir.rewriting import Pass

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

# What Python code made a pass of, by name; the last one with a name wins.
_registered: dict[str, Pass | type[Pass]] = {}


def register_pass(name: str, made: Pass | type[Pass]) -> None:
    """Let ``name`` stand for a pass that Python code made, in pipeline text too."""
    _registered[name] = made


def find_registered(name: str) -> Pass | None:
    """The pass that Python code made under this name, or None."""
    found = _registered.get(name)
    return found() if isinstance(found, type) else found


def find_any_pass(name: str) -> Pass:
    """The pass called ``name``, in pipeline text or by its class, with default options.

    Raises:
        ValueError: there is none.
    """
    found = find_registered(name)
    if found is not None:
        return found
    kinds = {kind.known_as or kind.__name__: kind for kind in list_passes().values()}
    kind = kinds.get(name) or find_pass(name)
    return kind()


LEVELS = ("relax", "tir", "schedule")
# The packages that hold the passes of a level; the first that has a name gives it.
_PACKAGES = {level: [f"relax_mlir.passes.{level}"] for level in LEVELS}
_PACKAGES["relax"].append("relax_mlir.relax.transform")
_NAME = re.compile(rf"({'|'.join(LEVELS)})-([a-z0-9]+(?:-[a-z0-9]+)*)")


def is_ours(name: str) -> bool:
    """Whether a pass with this name would be one of ours."""
    return name.split("-", 1)[0] in LEVELS


def find_pass(name: str) -> type[Pass]:
    """The class of our pass ``name``.

    Raises:
        ValueError: there is none.
    """
    kind = load_pass(name)
    if kind is None:
        raise ValueError(unknown_pass(name))
    return kind


def list_passes() -> dict[str, type[Pass]]:
    """All our passes, by level and name."""
    loaded = ((name, load_pass(name)) for name in _file_names())
    return {name: kind for name, kind in loaded if kind is not None}


def unknown_pass(name: str) -> str:
    """The sentence for a pass that neither we nor upstream have."""
    known = [*_file_names(), *upstream.known_passes()]
    return f"unknown pass `{name}`.{near_misses(name, known)}"


def load_pass(name: str) -> type[Pass] | None:
    """The class, or None if there is no such file, or it holds no such pass."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    level, verb_object = match.groups()
    class_name = "".join(word.capitalize() for word in verb_object.split("-"))
    for package in _PACKAGES[level]:
        module = f"{package}.{verb_object.replace('-', '_')}"
        if importlib.util.find_spec(module) is not None:
            kind = getattr(importlib.import_module(module), class_name, None)
            if _is_whole(kind):
                return kind
    return None


def _is_whole(kind: object) -> TypeGuard[type[Pass]]:
    """Whether this is a pass, rather than what passes have in common."""
    is_pass = isinstance(kind, type) and issubclass(kind, Pass)
    return is_pass and "__dataclass_params__" in vars(kind)


def _file_names() -> Iterable[str]:
    """What the files of our passes would be called as passes."""
    for level in LEVELS:
        found: set[str] = set()
        for package in map(importlib.import_module, _PACKAGES[level]):
            found.update(m.name for m in pkgutil.iter_modules(package.__path__))
        for module in sorted(name for name in found if not name.startswith("_")):
            yield f"{level}-{module.replace('_', '-')}"
