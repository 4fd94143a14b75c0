"""``relax-normalize-global-var``: functions are called what others know them as."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.rewriting import Pass, walk

__all__ = ["NormalizeGlobalVar", "rename_functions"]


@dataclass(frozen=True)
class NormalizeGlobalVar(Pass):
    """Rename functions whose attribute ``global_symbol`` says another name."""

    def run(self, module: IRModule) -> None:
        renamed: dict[str, str] = {}
        for function in module.func_ops():
            if names.ATTRS not in function.attributes:
                continue
            attrs = dict(from_attribute(function.attributes[names.ATTRS]))
            wanted = attrs.pop("global_symbol", None)
            if wanted is not None:
                renamed[function.name.value] = str(wanted)
                function.attributes[names.ATTRS] = to_attribute(attrs)
        rename_functions(module, renamed)


def rename_functions(module: IRModule, renamed: Mapping[str, str]) -> None:
    """Call functions by their new names, also where they are called."""
    for function in module.func_ops():
        name = function.name.value
        if name in renamed:
            function.attributes["sym_name"] = ir.StringAttr.get(renamed[name])
    for op in walk(module.mlir.operation):
        attributes = op.operation.attributes
        if "callee" not in attributes:
            continue
        callee = attributes["callee"]
        if isinstance(callee, ir.FlatSymbolRefAttr) and callee.value in renamed:
            new = renamed[callee.value]
            attributes["callee"] = ir.FlatSymbolRefAttr.get(new)
