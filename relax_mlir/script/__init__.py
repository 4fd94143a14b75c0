"""Scripts: Python that spells modules, functions of Relax and tensor programs."""

from relax_mlir.argument_types import check_exports
from relax_mlir.script import ir, relax, tir
from relax_mlir.script.ir import ir_module
from relax_mlir.script.parser.entry import parse_text as from_source
from relax_mlir.script.parser.entry import parse_text as parse
from relax_mlir.script.printer.module import function_script, module_script

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
