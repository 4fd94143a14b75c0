"""Import hook that resolves ``import tvm`` to :mod:`relax_mlir.tvm`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from relax_mlir.errors import RelaxError

__all__ = ["install"]

_ALIAS, _PACKAGE = "tvm", "relax_mlir.tvm"


class _AliasFinder(MetaPathFinder, Loader):
    """Resolves ``tvm.x`` to the module ``relax_mlir.tvm.x``: the same object, not a copy."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != _ALIAS:
            return None
        try:
            module = import_module(f"{_PACKAGE}{fullname[len(_ALIAS) :]}")
        except ModuleNotFoundError as error:
            if error.name != f"{_PACKAGE}{fullname[len(_ALIAS) :]}":
                raise
            return None
        return ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = sys.modules[f"{_PACKAGE}{spec.name[len(_ALIAS) :]}"]
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system replaced it by the alias's


def install() -> None:
    """Resolves ``import tvm`` and ``from tvm import ...`` to this package, in this process.

    Idempotent; the hook cannot be uninstalled.

    Raises:
        RelaxError: another package ``tvm`` has been imported already.
    """
    imported = sys.modules.get(_ALIAS)
    if imported is not None and imported is not sys.modules.get(_PACKAGE):
        raise RelaxError(
            f"`tvm` is imported already, from {imported.__file__}. Hint: call "
            "`relax_mlir.tvm.install()` before `import tvm`"
        )
    if not any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AliasFinder())
