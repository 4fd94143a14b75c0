"""``schedule-pass-descriptors``: kernels get descriptors of tensors as they are, by value."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.tir import marks
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, walk

__all__ = ["PassDescriptors"]

_BYTES, _ALIGNMENT = 128, 128  # of a descriptor


@dataclass(frozen=True)
class PassDescriptors(Pass):
    """Say in LLVM's terms which arguments of kernels are descriptors.

    The copy engine reads them where the driver has put them: no thread has a copy.
    ``gpu.func`` has no such arguments, ``llvm.func`` has.
    """

    def run(self, module: IRModule) -> None:
        for kernel in walk(module.mlir.operation):
            if (
                kernel.operation.name == "llvm.func"
                and marks.BY_VALUE in kernel.attributes
            ):
                _mark(kernel)


def _mark(kernel: ir.OpView) -> None:
    attributes = kernel.operation.attributes
    arguments = list(ir.ArrayAttr(attributes["arg_attrs"]))
    for number in ir.DenseI64ArrayAttr(attributes[marks.BY_VALUE]):
        arguments[number] = _by_value()
    attributes["arg_attrs"] = ir.ArrayAttr.get(arguments)
    del attributes[marks.BY_VALUE]


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
