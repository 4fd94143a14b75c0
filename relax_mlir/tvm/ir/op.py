"""Operators: ``tvm.ir.op``."""

from relax_mlir.objects.expr import (
    Op,
)
from relax_mlir.objects.operators import register_op_attr
from relax_mlir.support.argument_types import check_exports

__all__ = ["Op", "register_op_attr"]

check_exports(globals())
