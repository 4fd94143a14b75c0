"""The terms in tensor programs, by the module that TVM has them in."""

from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.prim import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim import __all__ as _terms

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BufferLoad",
    *_terms,
]
