"""Statement visitors and mutators under TVM's module name ``tir.stmt_functor``."""

from relax_mlir.objects.stmt.functor import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt.functor import __all__ as _walks
from relax_mlir.support.argument_types import check_exports

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_walks,
]

check_exports(globals())
