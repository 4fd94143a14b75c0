"""Import of ``relax_mlir.dialects`` from a source tree, where its folder is next to the package.

In a wheel the folder is inside the package, and nothing is done here.
"""

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

__all__ = ["find_dialects"]

_DIALECTS = "relax_mlir.dialects"


class _DialectsFinder:  # its base class would import importlib.resources
    """Finds one subpackage in the parent folder of the package."""

    def __init__(self, root: Path) -> None:
        self._path = [str(root)]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != _DIALECTS:
            return None
        return PathFinder.find_spec(fullname, self._path, target)


def find_dialects(folders: Iterable[str]) -> None:
    """Make ``relax_mlir.dialects`` importable if the package is in a source tree.

    The finder comes first: an empty folder that an older checkout left in the package would
    be found as a namespace package.

    Args:
        folders: of the package, in the order in which they are searched.
    """
    for package in map(Path, folders):
        if (package / "dialects" / "__init__.py").exists():
            return
        if (package.parent / "dialects" / "__init__.py").exists():
            sys.meta_path.insert(0, _DialectsFinder(package.parent))
            return
