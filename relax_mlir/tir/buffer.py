"""Buffers, by the module that TVM has them in."""

from relax_mlir.objects.buffer import *  # noqa: F403  it has __all__
from relax_mlir.objects.buffer import __all__ as _buffers

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_buffers,
]
