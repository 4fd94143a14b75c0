"""Scalar intrinsics under TVM's module name ``tir.op``."""

from relax_mlir.objects.prim.intrinsics import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim.intrinsics import __all__ as _functions

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_functions,
]
