"""Supplies of unique names: ``tvm.ir.supply``."""

from relax_mlir.objects.name_supply import GlobalVarSupply, UniqueNameSupply
from relax_mlir.support.argument_types import check_exports

NameSupply = UniqueNameSupply  # TVM's older name

__all__ = ["GlobalVarSupply", "NameSupply", "UniqueNameSupply"]

check_exports(globals())
