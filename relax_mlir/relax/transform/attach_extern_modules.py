"""``AttachExternModules``: functions of external modules can be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.module import IRModule
from relax_mlir.relax.transform.function_rewriting import add_external_mods
from relax_mlir.rewriting import Pass

__all__ = ["AttachExternModules"]


@dataclass(frozen=True)
class AttachExternModules(Pass):
    """Load external modules, and list their functions in the attribute `external_mods`.

    Args:
        extern_modules: modules of a network; what they export is registered by its names.
    """

    known_as: ClassVar[str] = "AttachExternalModules"
    # Any: what networks use, whose package imports this one.
    extern_modules: Sequence[Any] = field(default=(), metadata={"text": False})

    def run(self, module: IRModule) -> None:
        for extern in self.extern_modules:
            extern.load()
        add_external_mods(module, [list(e.symbols) for e in self.extern_modules])
