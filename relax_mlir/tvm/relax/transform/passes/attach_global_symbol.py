"""``relax-attach-global-symbol``: makes all functions public."""

from dataclasses import dataclass

from relax_mlir.ir.function_attributes import is_prim_func, rename_functions
from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass

__all__ = ["AttachGlobalSymbol"]


@dataclass(frozen=True)
class AttachGlobalSymbol(Pass):
    """Makes every function public, under its own name.

    The module attribute ``system_lib_prefix`` is prepended to the names of tensor programs,
    so that several modules can be linked together.
    """

    def run(self, module: IRModule) -> None:
        prefix = str(module.attrs.get("system_lib_prefix") or "")
        renamed: dict[str, str] = {}
        for function in module.func_ops():
            attributes = function.attributes
            if "sym_visibility" in attributes:
                del attributes["sym_visibility"]
            if prefix and is_prim_func(function):
                renamed[function.name.value] = prefix + function.name.value
        rename_functions(module.mlir.operation, renamed)
