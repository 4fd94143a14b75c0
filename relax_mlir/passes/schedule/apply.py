"""``schedule-apply``: every kernel gets its loops from the first rule that takes it."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import PassError, near_misses
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, erase, has_uses
from relax_mlir.schedules.cpu.contraction import Contraction
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.cpu.rows import Rows
from relax_mlir.schedules.cpu.turned import Turned
from relax_mlir.schedules.cpu.windows import Windows
from relax_mlir.schedules.cpu.winograd import Winograd
from relax_mlir.schedules.emit import is_parallel_loop
from relax_mlir.schedules.nest import Kernel, read_kernel
from relax_mlir.schedules.rule import Rule, VectorUnit

__all__ = ["Apply"]

# Most specific first; the last takes anything.
_RULES: tuple[type[Rule], ...] = (
    Winograd,
    Contraction,
    Windows,
    Turned,
    Rows,
    Fallback,
)


@dataclass(frozen=True)
class Apply(Pass):
    """Turn linalg kernels into loops, each by the first schedule rule that takes it.

    ``only`` names the one rule to use, such as ``Fallback``; it must take every kernel.
    ``byte-dots`` says that the machine sums four products of bytes at once.
    """

    vector_bits: int = 256
    byte_dots: bool = False
    only: str = ""

    def run(self, module: IRModule) -> None:
        names = [rule.__name__ for rule in _RULES]
        if self.only and self.only not in names:
            raise PassError(
                f"unknown rule `{self.only}`: expected one of {', '.join(names)}."
                f"{near_misses(self.only, names)}"
            )
        for function in module.func_ops():
            is_program = (
                "tir.prim_func" in function.attributes and not function.is_external
            )
            if is_program and "tir.rule" not in function.attributes:
                self._schedule(function)

    def _schedule(self, function: func.FuncOp) -> None:
        terminator = list(function.regions[0].blocks[0].operations)[-1]
        with ir.InsertionPoint(terminator), function.location:
            kernel = read_kernel(function)
            rules = [r for r in _RULES if self.only in ("", r.__name__)]
            unit = VectorUnit(self.vector_bits, self.byte_dots)
            fitting = (rule(unit) for rule in rules)
            rule = next((r for r in fitting if r.matches(kernel)), None)
            if rule is None:
                raise PassError(
                    f"`{function.name.value}`: `{self.only}` does not take it"
                )
            rule.emit(kernel)
        _check_loops(kernel, rule)
        function.attributes["tir.rule"] = ir.StringAttr.get(type(rule).__name__)
        if not isinstance(rule, Fallback):
            _erase_statements(kernel)


def _check_loops(kernel: Kernel, rule: Rule) -> None:
    """Refuse what threads could not share."""
    loops = [o for o in kernel.block.operations if is_parallel_loop(o)]
    if len(loops) != 1:
        raise PassError(
            f"kernel `{kernel.function.name.value}`: expected one loop over tiles from "
            f"rule `{type(rule).__name__}`, got {len(loops)}. Its `emit` must call "
            "`parallel_loop` once, outside of other loops."
        )


def _erase_statements(kernel: Kernel) -> None:
    """Drop the linalg form, last first, and what only it used."""
    removable = {"linalg.generic", "memref.subview", "memref.alloc", "memref.alloca"}
    for op in reversed(list(kernel.block.operations)):
        if op.operation.name not in removable:
            continue
        if not any(map(has_uses, op.results)):
            erase(op)
