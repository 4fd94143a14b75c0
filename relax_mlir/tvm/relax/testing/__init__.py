"""``tvm.relax.testing``: helpers for tests of Relax."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.testing.ast_printer import ASTPrinter, dump_ast

__all__ = ["ASTPrinter", "dump_ast"]

check_exports(globals())
