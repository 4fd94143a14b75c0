"""Base classes of schedule rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from relax_mlir.errors import ScheduleError
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["GuardedRule", "RuleResult", "ScheduleRule"]

# Result of a rule: a schedule, several candidates, or None if the rule does not apply.
RuleResult: TypeAlias = Schedule | Sequence[Schedule] | None


class ScheduleRule:
    """Schedule rule: matches PrimFuncs of one kind and schedules them."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> RuleResult:
        """Schedules of a PrimFunc, best first; None if the rule does not apply.

        Args:
            func: the PrimFunc, which is not modified.
            target: the target to schedule for.
            tunable: whether schedules may contain sampling decisions for a tuner.
        """
        raise NotImplementedError(f"`{type(self).__name__}` does not implement `apply`")

    @staticmethod
    def from_callable(
        name: str,
    ) -> Callable[[Callable[[PrimFunc, Target, bool], RuleResult]], ScheduleRule]:
        """Decorator that makes a function the :meth:`apply` of a rule.

        Args:
            name: class name of the rule.
        """

        def decorate(
            function: Callable[[PrimFunc, Target, bool], RuleResult],
        ) -> ScheduleRule:
            def apply(
                self: ScheduleRule, func: PrimFunc, target: Target, tunable: bool
            ) -> RuleResult:
                return function(func, target, tunable)

            return type(name, (ScheduleRule,), {"apply": apply})()

        return decorate


class GuardedRule(ScheduleRule, ABC):
    """Schedule rule that does not apply if a schedule primitive raises an error."""

    for_gpus: ClassVar[bool] = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> RuleResult:
        """See :meth:`ScheduleRule.apply`."""
        if (target.kind.name not in _CPUS) != self.for_gpus:
            return None
        schedule = Schedule(func)
        try:
            return schedule if self.schedule(schedule, target) else None
        except ScheduleError:
            return None

    @abstractmethod
    def schedule(self, sch: Schedule, target: Target) -> bool:
        """Schedule a PrimFunc in place; returns whether the rule applies.

        Raises:
            ScheduleError: a primitive failed, so the rule does not apply.
        """


_CPUS = ("llvm", "c")
