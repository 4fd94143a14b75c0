"""Packages of this project in the place of others: ``import tvm``, ``import onnxruntime``."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from relax_mlir.errors import RelaxError

__all__ = ["alias_package", "run_script"]


class _AliasFinder(MetaPathFinder, Loader):
    """Resolves ``alias.x`` to the module ``package.x``: the same object, not a copy."""

    def __init__(self, alias: str, package: str) -> None:
        self.alias, self._package = alias, package

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.alias:
            return None
        name = f"{self._package}{fullname[len(self.alias) :]}"
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            return None
        return ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = sys.modules[f"{self._package}{spec.name[len(self.alias) :]}"]
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system replaced it by the alias's


def alias_package(alias: str, package: str) -> None:
    """Resolve imports of another package to one of this project, in this process.

    Idempotent; the hook cannot be uninstalled.

    Args:
        alias: the name that programs import; package: what they get.

    Raises:
        RelaxError: another package of that name has been imported already.
    """
    imported = sys.modules.get(alias)
    if imported is not None and imported is not sys.modules.get(package):
        raise RelaxError(
            f"`{alias}` is imported already, from {imported.__file__}. Hint: call "
            f"`{package}.install()` before `import {alias}`"
        )
    finders = (f for f in sys.meta_path if isinstance(f, _AliasFinder))
    if all(finder.alias != alias for finder in finders):
        sys.meta_path.insert(0, _AliasFinder(alias, package))


def run_script(
    arguments: Sequence[str], package: str, install: Callable[[], None]
) -> int:
    """Run a script with its arguments, as ``python SCRIPT.py`` does.

    Exceptions of the script propagate.

    Args:
        arguments: the script, and its arguments.
        package: whose command this is, for messages.
        install: called before the script.

    Returns:
        The exit status: 2 for a wrong command line or a missing file, else 0.
    """
    usage = f"usage: python -m {package} SCRIPT.py [ARGUMENT ...]"
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return 0 if arguments else 2
    script = Path(arguments[0])
    if not script.is_file():
        print(f"{usage}\nerror: {script}: no such file", file=sys.stderr)
        return 2
    install()
    sys.argv = list(arguments)
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
    return 0
