"""Names that are given once: ``tvm.ir.supply``."""

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.name_supply import GlobalVarSupply, UniqueNameSupply

NameSupply = UniqueNameSupply  # TVM's older name

__all__ = ["GlobalVarSupply", "NameSupply", "UniqueNameSupply"]

check_exports(globals())
