"""``relax-attach-global-symbol``: all functions can be seen by other modules."""

from dataclasses import dataclass

from relax_mlir.module import IRModule
from relax_mlir.objects.names import rename_functions
from relax_mlir.rewriting import Pass

__all__ = ["AttachGlobalSymbol"]


@dataclass(frozen=True)
class AttachGlobalSymbol(Pass):
    """Let every function be seen outside of its module, under its own name.

    The attribute ``system_lib_prefix`` of a module comes in front of the names of tensor
    programs, so that those of several modules can be linked together.
    """

    def run(self, module: IRModule) -> None:
        prefix = str(module.attrs.get("system_lib_prefix") or "")
        renamed: dict[str, str] = {}
        for function in module.func_ops():
            attributes = function.attributes
            if "sym_visibility" in attributes:
                del attributes["sym_visibility"]
            if prefix and "tir.prim_func" in attributes:
                renamed[function.name.value] = prefix + function.name.value
        rename_functions(module.mlir.operation, renamed)
