"""The IR builder: modules and functions built by Python code, statement by statement.

Inside of ``with IRBuilder():``, the functions of the script namespaces emit statements.
"""

import sys

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.script import builder as base
from relax_mlir.tvm.script import ir, relax, tir
from relax_mlir.tvm.script.builder import IRBuilder
from relax_mlir.tvm.script.ir import *  # noqa: F403  it has __all__

tirx = tir  # TVM's newest name

__all__ = ["IRBuilder", "base", "ir", "relax", "tir", "tirx"]
__all__ += ir.__all__

# `from relax_mlir.tvm.script.ir_builder.base import IRBuilder` must import the same class.
for _name, _module in (("base", base), ("ir", ir), ("relax", relax), ("tir", tir)):
    sys.modules[f"{__name__}.{_name}"] = _module

check_exports(globals())
