"""``UpdateVDevice``: tensors of one virtual device live on another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.struct_info import StructInfo, TensorStructInfo, VDevice
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["UpdateVdevice"]


@dataclass(frozen=True)
class UpdateVdevice(Pass):
    """Put another virtual device in place of one that the module lists.

    Args:
        new_vdevice: the new one.
        index: the number of the old one in the list ``vdevice`` of the module.
    """

    known_as: ClassVar[str] = "UpdateVDevice"
    new_vdevice: VDevice | None = field(default=None, metadata={"text": False})
    index: int = 0

    def run(self, module: IRModule) -> None:
        devices = list(module.global_infos.get("vdevice", []))
        if not 0 <= self.index < len(devices):
            raise PassError(
                f"`UpdateVDevice`: the module lists {len(devices)} virtual devices: "
                f"expected the number of one, got {self.index}"
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
        """What is known of a value, with the new device."""
        made = super().visit_struct_info(info)
        if not isinstance(made, TensorStructInfo) or made.vdevice != self.old:
            return made
        return made.replace(vdevice=self.new)
