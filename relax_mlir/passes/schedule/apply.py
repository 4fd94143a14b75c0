"""``schedule-apply``: every kernel gets its loops from the first rule that takes it."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, erase
from relax_mlir.schedules.cpu.contraction import Contraction
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.cpu.rows import Rows
from relax_mlir.schedules.nest import Kernel, read_kernel

__all__ = ["Apply"]

_RULES = (Contraction, Rows, Fallback)  # most specific first; the last takes anything


@dataclass(frozen=True)
class Apply(Pass):
    """Turn linalg kernels into loops, each by the first schedule rule that takes it."""

    vector_bits: int = 256

    def run(self, module: IRModule) -> None:
        for function in module.functions():
            is_program = (
                "tir.prim_func" in function.attributes and not function.is_external
            )
            if is_program and "tir.rule" not in function.attributes:
                self._schedule(function)

    def _schedule(self, function: func.FuncOp) -> None:
        terminator = list(function.regions[0].blocks[0].operations)[-1]
        with ir.InsertionPoint(terminator), function.location:
            kernel = read_kernel(function)
            rule = next(
                r
                for r in (rule(self.vector_bits) for rule in _RULES)
                if r.matches(kernel)
            )
            rule.emit(kernel)
        function.attributes["tir.rule"] = ir.StringAttr.get(type(rule).__name__)
        if not isinstance(rule, Fallback):
            _erase_statements(kernel)


def _erase_statements(kernel: Kernel) -> None:
    """Drop the linalg form, last first, and what only it used."""
    removable = {"linalg.generic", "memref.subview", "memref.alloc", "memref.alloca"}
    for op in reversed(list(kernel.block.operations)):
        if op.operation.name not in removable:
            continue
        if not any(next(iter(r.uses), None) for r in op.results):
            erase(op)
