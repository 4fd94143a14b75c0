"""Names that are given once: ``tvm.ir.supply``."""

from relax_mlir.objects.name_supply import GlobalVarSupply, UniqueNameSupply

NameSupply = UniqueNameSupply  # TVM's older name

__all__ = ["GlobalVarSupply", "NameSupply", "UniqueNameSupply"]
