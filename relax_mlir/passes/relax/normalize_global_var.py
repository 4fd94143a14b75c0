"""``relax-normalize-global-var``: functions are called what others know them as."""

from dataclasses import dataclass

from mlir.dialects import func

from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.rewriting import Pass

__all__ = ["NormalizeGlobalVar"]


@dataclass(frozen=True)
class NormalizeGlobalVar(Pass):
    """Rename functions whose attribute ``global_symbol`` says another name.

    A private function that is called so gets a number behind its name.
    """

    def run(self, module: IRModule) -> None:
        functions = module.func_ops()
        is_own = [names.is_private(function) for function in functions]
        public = [
            f for f, private in zip(functions, is_own, strict=True) if not private
        ]
        renamed = {f.name.value: _take_symbol(f) for f in public}
        taken = set(renamed.values())
        for function, private in zip(functions, is_own, strict=True):
            if private:
                fresh = _fresh(function.name.value, taken)
                renamed[function.name.value] = fresh
                taken.add(fresh)
        names.rename_functions(module.mlir.operation, renamed)


def _take_symbol(function: func.FuncOp) -> str:
    """The name that the attribute says, which is taken from the function."""
    attributes = function.attributes
    if names.ATTRS not in attributes:
        return function.name.value
    attrs = dict(from_attribute(attributes[names.ATTRS]))
    wanted = attrs.pop("global_symbol", None)
    if wanted is None:
        return function.name.value
    del attributes[names.ATTRS]
    if attrs:
        attributes[names.ATTRS] = to_attribute(attrs)
    return str(wanted)


def _fresh(name: str, taken: set[str]) -> str:
    fresh, count = name, 0
    while fresh in taken:
        count += 1
        fresh = f"{name}{count}"
    return fresh
