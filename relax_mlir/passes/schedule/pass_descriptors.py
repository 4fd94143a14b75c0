"""``schedule-pass-descriptors``: TMA descriptors as by-value kernel arguments."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import Pass

__all__ = ["PassDescriptors"]

_BYTES, _ALIGNMENT = 128, 128  # of a CUtensorMap


@dataclass(frozen=True)
class PassDescriptors(Pass):
    """Mark kernel arguments that are TMA descriptors as by-value grid constants.

    The TMA reads them from parameter memory, without a copy per thread. ``llvm.func`` has such
    arguments, ``gpu.func`` does not.
    """

    def run(self, module: IRModule) -> None:
        for kernel in walk(module.mlir.operation):
            if (
                kernel.operation.name == "llvm.func"
                and attribute_names.BY_VALUE in kernel.attributes
            ):
                _mark(kernel)


def _mark(kernel: ir.OpView) -> None:
    attributes = kernel.operation.attributes
    arguments = list(ir.ArrayAttr(attributes["arg_attrs"]))
    for number in ir.DenseI64ArrayAttr(attributes[attribute_names.BY_VALUE]):
        arguments[number] = _by_value()
    attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
    del attributes[attribute_names.BY_VALUE]


def _by_value() -> ir.DictAttr:
    i64 = ir.IntegerType.get_signless(64)
    block = ir.Type.parse(f"!llvm.array<{_BYTES} x i8>")
    return ir.DictAttr.get(
        {
            "llvm.align": ir.IntegerAttr.get(i64, _ALIGNMENT),
            "llvm.byval": ir.TypeAttr.get(block),
            "nvvm.grid_constant": ir.UnitAttr.get(),
        }
    )
