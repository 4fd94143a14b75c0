"""``schedule-apply``: every kernel gets its loops from the first rule that takes it."""

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.passes.schedule.rules import (
    check_rule_name,
    choose_rule,
    erase_statements,
    unscheduled,
    write_kernel,
)
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.schedules.choice import Choice
from relax_mlir.schedules.cpu.attention import Attention
from relax_mlir.schedules.cpu.contraction import Contraction
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.cpu.rows import Rows
from relax_mlir.schedules.cpu.turned import Turned
from relax_mlir.schedules.cpu.windows import Windows
from relax_mlir.schedules.cpu.winograd import Winograd
from relax_mlir.schedules.emit import is_parallel_loop
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import Rule
from relax_mlir.traversal import own_operations

__all__ = ["Apply"]

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
        check_rule_name(self.only, _RULES)
        for function in unscheduled(module):
            kernel, choice = write_kernel(function, self.choose)
            _check_loops(kernel, choice.name)
            if not isinstance(choice.rule, Fallback):
                erase_statements(kernel)

    def choose(self, kernel: Kernel) -> Choice:
        """The rule that writes a kernel, at the insertion point, and how.

        Raises:
            PassError: the rule that is asked for does not take the kernel, or has no such
                configuration.
        """
        return choose_rule(kernel, [rule(self.unit) for rule in _RULES], self.only)


def _check_loops(kernel: Kernel, rule: str) -> None:
    """Refuse what threads could not share."""
    loops = [o for o in own_operations(kernel.block) if is_parallel_loop(o)]
    if len(loops) != 1:
        raise PassError(
            f"kernel `{kernel.function.name.value}`: expected one loop over tiles from "
            f"rule `{rule}`, got {len(loops)}. Its `write` must call "
            "`parallel_loop` once, outside of other loops."
        )
