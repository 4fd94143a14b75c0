"""``tvm.relax.frontend.nn``: an alias of :mod:`relax_mlir.nn`."""

import sys
from importlib import import_module

from relax_mlir import nn
from relax_mlir.nn import *  # noqa: F403  it has __all__

__all__: list[str] = []
__all__ += nn.__all__

# `from relax_mlir.tvm.relax.frontend.nn.core import Tensor` must yield the same classes.
for _name in ("core", "exporter", "extern", "modules", "op", "spec", "visitor"):
    sys.modules[f"{__name__}.{_name}"] = import_module(f"relax_mlir.nn.{_name}")
