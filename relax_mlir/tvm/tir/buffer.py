"""Buffers under TVM's module name ``tir.buffer``."""

from relax_mlir.objects.stmt.buffer import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt.buffer import __all__ as _buffers

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_buffers,
]
