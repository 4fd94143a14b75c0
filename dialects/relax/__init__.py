"""The relax dialect: one class per operator, by family.

An operator's class is ``relax.AddOp`` from here, or from its family's module.
"""

from importlib import import_module
from pkgutil import iter_modules

from relax_mlir.dialects.relax.core import Relax, RelaxOperation, relax_ops

__all__ = ["Relax", "RelaxOperation", "relax_ops"]

# A family of operators joins the dialect when it is imported, and is found by being here.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> type[RelaxOperation]:
    """The class of an operator, whichever family it belongs to."""
    for op in Relax.operations:
        if op.__name__ == name:
            return op
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
