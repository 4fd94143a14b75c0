"""What tests of graphs use: ``tvm.relax.testing``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.testing.ast_printer import ASTPrinter, dump_ast

__all__ = ["ASTPrinter", "dump_ast"]

check_exports(globals())
