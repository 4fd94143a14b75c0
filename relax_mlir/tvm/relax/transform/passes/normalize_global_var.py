"""``relax-normalize-global-var``: renames functions to their ``global_symbol``."""

from dataclasses import dataclass

from mlir.dialects import func

from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.rewrite.patterns import Pass

__all__ = ["NormalizeGlobalVar"]


@dataclass(frozen=True)
class NormalizeGlobalVar(Pass):
    """Renames public functions to the names in their attribute ``global_symbol``.

    A private function of the same name gets a numeric suffix.
    """

    def run(self, module: IRModule) -> None:
        functions = module.func_ops()
        private_flags = [
            function_attributes.is_private(function) for function in functions
        ]
        public = [
            f
            for f, private in zip(functions, private_flags, strict=True)
            if not private
        ]
        renamed = {f.name.value: _take_symbol(f) for f in public}
        taken = set(renamed.values())
        for function, private in zip(functions, private_flags, strict=True):
            if private:
                fresh = _fresh_name(function.name.value, taken)
                renamed[function.name.value] = fresh
                taken.add(fresh)
        function_attributes.rename_functions(module.mlir.operation, renamed)


def _take_symbol(function: func.FuncOp) -> str:
    """Removes the attribute ``global_symbol`` from a function and returns its value."""
    attributes = function.attributes
    if function_attributes.ATTRS not in attributes:
        return function.name.value
    attrs = dict(from_attribute(attributes[function_attributes.ATTRS]))
    symbol = attrs.pop("global_symbol", None)
    if symbol is None:
        return function.name.value
    del attributes[function_attributes.ATTRS]
    if attrs:
        attributes[function_attributes.ATTRS] = to_attribute(attrs)
    return str(symbol)


def _fresh_name(name: str, taken: set[str]) -> str:
    fresh, count = name, 0
    while fresh in taken:
        count += 1
        fresh = f"{name}{count}"
    return fresh
