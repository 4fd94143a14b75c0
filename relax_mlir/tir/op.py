"""Functions of scalars, by the module that TVM has them in."""

from relax_mlir.objects.functions import *  # noqa: F403  it has __all__
from relax_mlir.objects.functions import __all__ as _functions

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_functions,
]
