"""Walks over tensor programs, by the module that TVM has them in."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.stmt_functor import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt_functor import __all__ as _walks

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_walks,
]

check_exports(globals())
