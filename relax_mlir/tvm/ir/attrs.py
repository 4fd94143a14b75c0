"""Attributes: ``tvm.ir.attrs``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.expr import (
    Attrs,
)
from relax_mlir.objects.expr import Attrs as DictAttrs

__all__ = ["Attrs", "DictAttrs"]

check_exports(globals())
