"""``relax-normalize-global-var``: functions are called what others know them as."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.rewriting import Pass, walk

__all__ = ["NormalizeGlobalVar"]


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
                function.attributes["sym_name"] = ir.StringAttr.get(str(wanted))
                function.attributes[names.ATTRS] = to_attribute(attrs)
        for op in walk(module.mlir.operation):
            attributes = op.operation.attributes
            if "callee" in attributes:
                callee = attributes["callee"]
                if isinstance(callee, ir.FlatSymbolRefAttr) and callee.value in renamed:
                    new = renamed[callee.value]
                    attributes["callee"] = ir.FlatSymbolRefAttr.get(new)
