"""``schedule-apply``: every kernel gets its loops from the first rule that takes it."""

from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import PassError, near_misses
from relax_mlir.module import IRModule
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.rewriting import erase, has_uses
from relax_mlir.schedules.choice import Choice, choose, chosen_by_text
from relax_mlir.schedules.cpu.attention import Attention
from relax_mlir.schedules.cpu.contraction import Contraction
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.cpu.rows import Rows
from relax_mlir.schedules.cpu.turned import Turned
from relax_mlir.schedules.cpu.windows import Windows
from relax_mlir.schedules.cpu.winograd import Winograd
from relax_mlir.schedules.emit import is_parallel_loop
from relax_mlir.schedules.nest import Kernel, read_kernel
from relax_mlir.schedules.rule import Refusal, Rule

__all__ = ["CONFIGURATION", "Apply"]

CONFIGURATION = "tir.config"  # of a kernel: how to write it, as text

# Most specific first; the last takes anything.
_RULES: tuple[type[Rule[Any]], ...] = (
    Winograd,
    Attention,
    Contraction,
    Windows,
    Turned,
    Rows,
    Fallback,
)


@dataclass(frozen=True)
class Apply(UnitPass):
    """Turn linalg kernels into loops, each by the first schedule rule that takes it.

    A kernel with the attribute ``tir.config`` is written as that says, such as
    ``"Contraction{rows=6, vectors=4}"``; what it leaves open, the rule chooses.

    ``only`` names the one rule to use, such as ``Fallback``, whatever the attribute says;
    it must take every kernel.
    """

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
            choice = self.choose(kernel)
            choice.write()
        _check_loops(kernel, choice.name)
        function.attributes["tir.rule"] = ir.StringAttr.get(choice.name)
        if not isinstance(choice.rule, Fallback):
            _erase_statements(kernel)

    def choose(self, kernel: Kernel) -> Choice:
        """The rule that writes a kernel, at the insertion point, and how.

        Raises:
            PassError: the rule that is asked for does not take the kernel, or has no such
                configuration.
        """
        attributes = kernel.function.attributes
        rules = [rule(self.unit) for rule in _RULES if self.only in ("", rule.__name__)]
        where = f"kernel `{kernel.function.name.value}`"
        try:
            if self.only or CONFIGURATION not in attributes:
                return choose(kernel, rules)
            text = ir.StringAttr(attributes[CONFIGURATION]).value
            return chosen_by_text(text, kernel, rules)
        except Refusal as refusal:
            raise PassError(
                f"{where}: `{self.only}` does not take it: {refusal.reason}"
            ) from None
        except ValueError as error:
            raise PassError(f"{where}: attribute `{CONFIGURATION}`: {error}") from error


def _check_loops(kernel: Kernel, rule: str) -> None:
    """Refuse what threads could not share."""
    loops = [o for o in kernel.block.operations if is_parallel_loop(o)]
    if len(loops) != 1:
        raise PassError(
            f"kernel `{kernel.function.name.value}`: expected one loop over tiles from "
            f"rule `{rule}`, got {len(loops)}. Its `write` must call "
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
