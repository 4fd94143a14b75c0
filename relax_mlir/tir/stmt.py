"""The statements of tensor programs, by the module that TVM has them in."""

from relax_mlir.objects.buffer import BufferRegion
from relax_mlir.objects.stmt import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt import __all__ as _statements

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BufferRegion",
    *_statements,
]
