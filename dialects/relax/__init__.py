"""The relax dialect: one class per operator, one module per family of operators.

The class of an operator, such as ``relax.AddOp``, is accessible from this package.
"""

from importlib import import_module
from pkgutil import iter_modules

from relax_mlir.dialects.relax.core import Relax, RelaxOperation, relax_ops

__all__ = ["Relax", "RelaxOperation", "relax_ops"]

# Importing a module registers its operators with the dialect.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> type[RelaxOperation]:
    """Looks up the class of an operator in all families."""
    for op in Relax.operations:
        if op.__name__ == name:
            return op
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
