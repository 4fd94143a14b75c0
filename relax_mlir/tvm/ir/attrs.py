"""Attributes: ``tvm.ir.attrs``."""

from relax_mlir.objects.expr import (
    Attrs,
)
from relax_mlir.objects.expr import Attrs as DictAttrs
from relax_mlir.support.argument_types import check_exports

__all__ = ["Attrs", "DictAttrs"]

check_exports(globals())
