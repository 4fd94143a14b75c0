"""Statements under TVM's module name ``tir.stmt``."""

from relax_mlir.objects.stmt.buffer import BufferRegion
from relax_mlir.objects.stmt.statements import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt.statements import __all__ as _statements

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BufferRegion",
    *_statements,
]
