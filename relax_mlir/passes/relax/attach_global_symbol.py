"""``relax-attach-global-symbol``: all functions can be seen by other modules."""

from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass

__all__ = ["AttachGlobalSymbol"]


@dataclass(frozen=True)
class AttachGlobalSymbol(Pass):
    """Let every function be seen outside of its module, under its own name."""

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if "sym_visibility" in function.attributes:
                del function.attributes["sym_visibility"]
