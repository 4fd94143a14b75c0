"""Operators: ``tvm.ir.op``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.expr import (
    Op,
)
from relax_mlir.objects.operators import register_op_attr

__all__ = ["Op", "register_op_attr"]

check_exports(globals())
