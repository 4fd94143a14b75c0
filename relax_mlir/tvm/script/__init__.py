"""TVMScript: modules, Relax functions and PrimFuncs in Python syntax."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.script import ir, relax, tir
from relax_mlir.tvm.script.ir import ir_module
from relax_mlir.tvm.script.parser.entry import parse_text as from_source
from relax_mlir.tvm.script.parser.entry import parse_text as parse
from relax_mlir.tvm.script.printer.module import function_script, module_script

tirx = s_tir = tir  # TVM's newest names

__all__ = [
    "from_source",
    "function_script",
    "ir",
    "ir_module",
    "module_script",
    "parse",
    "relax",
    "s_tir",
    "tir",
    "tirx",
]

check_exports(globals())
