"""``AttachExternModules``: registers external modules with a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import add_external_mods

__all__ = ["AttachExternModules"]


@dataclass(frozen=True)
class AttachExternModules(Pass):
    """Loads external modules and lists their functions in `external_mods`.

    Args:
        extern_modules: modules of the neural network frontend (``nn.ExternModule``); their
            functions are registered under the names they export.
    """

    known_as: ClassVar[str] = "AttachExternalModules"
    # Any: `nn.ExternModule`, whose package imports this one.
    extern_modules: Sequence[Any] = field(default=(), metadata={"text": False})

    def run(self, module: IRModule) -> None:
        for extern in self.extern_modules:
            extern.load()
        add_external_mods(module, [list(e.symbols) for e in self.extern_modules])
