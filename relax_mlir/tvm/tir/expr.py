"""Expressions under TVM's module name ``tir.expr``."""

from relax_mlir.objects.prim import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim import __all__ as _terms
from relax_mlir.objects.stmt.buffer import BufferLoad

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BufferLoad",
    *_terms,
]
