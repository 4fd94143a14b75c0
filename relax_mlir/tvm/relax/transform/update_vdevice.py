"""``UpdateVDevice``: replaces one virtual device of a module by another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr.struct_info import StructInfo, TensorStructInfo, VDevice
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import rewrite_functions

__all__ = ["UpdateVdevice"]


@dataclass(frozen=True)
class UpdateVdevice(Pass):
    """Replaces a virtual device in all types and in the module's list.

    Args:
        new_vdevice: the replacement.
        index: the index of the old device in the module's ``vdevice`` list.
    """

    known_as: ClassVar[str] = "UpdateVDevice"
    new_vdevice: VDevice | None = field(default=None, metadata={"text": False})
    index: int = 0

    def run(self, module: IRModule) -> None:
        devices = list(module.global_infos.get("vdevice", []))
        if not 0 <= self.index < len(devices):
            raise PassError(
                f"`UpdateVDevice`: the module lists {len(devices)} virtual devices: "
                f"expected an index into them, got {self.index}"
            )
        old, new = devices[self.index], self.new_vdevice
        if new is None:
            raise PassError("`UpdateVDevice`: expected a new virtual device, got None")
        rewrite_functions(module, lambda f: _Updater(old, new).visit_expr(f))
        updated = [new if device == old else device for device in devices]
        module.update_global_info("vdevice", updated)


class _Updater(PyExprMutator):
    def __init__(self, old: VDevice, new: VDevice) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def visit_struct_info(self, info: StructInfo | None) -> Any:
        """Returns struct info with the new device."""
        new_info = super().visit_struct_info(info)
        if not isinstance(new_info, TensorStructInfo) or new_info.vdevice != self.old:
            return new_info
        return new_info.replace(vdevice=self.new)
