"""Modules and functions that Python code writes, statement by statement.

What scripts are spelled with makes the same statements inside of ``with IRBuilder():``.
"""

import sys

from relax_mlir.argument_types import check_exports
from relax_mlir.script import builder as base
from relax_mlir.script import ir, relax, tir
from relax_mlir.script.builder import IRBuilder
from relax_mlir.script.ir import *  # noqa: F403  it has __all__

tirx = tir  # TVM's newest name

__all__ = ["IRBuilder", "base", "ir", "relax", "tir", "tirx"]
__all__ += ir.__all__

# `from relax_mlir.script.ir_builder.base import IRBuilder` has to find the same classes.
for _name, _module in (("base", base), ("ir", ir), ("relax", relax), ("tir", tir)):
    sys.modules[f"{__name__}.{_name}"] = _module

check_exports(globals())
