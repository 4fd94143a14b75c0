"""TIR objects, under TVM's newest name: ``tvm.tirx``."""

import sys
from importlib import import_module

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm import tir
from relax_mlir.tvm.relax.vm import build_any as build
from relax_mlir.tvm.tir import *  # noqa: F403  it has __all__

__all__ = ["build"]
__all__ += tir.__all__

# `from relax_mlir.tvm.tirx.stmt import For` must import the same classes.
for _name in ("analysis", "buffer", "expr", "function", "op", "stmt", "stmt_functor"):
    _module = import_module(f"relax_mlir.tvm.tir.{_name}")
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module

check_exports(globals())
