"""What a rule for schedules is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from relax_mlir.errors import ScheduleError
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["GuardedRule", "ScheduleRule", "Scheduled"]

# What a rule gives: a schedule, some to choose from, or None where it does not take it.
Scheduled: TypeAlias = Schedule | Sequence[Schedule] | None


class ScheduleRule:
    """How programs of one kind are scheduled."""

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Scheduled:
        """The schedules of a program, the best first; None if the rule does not take it.

        Args:
            func: the program, which stays as it is.
            target: the machine.
            tunable: whether schedules may leave something to tuning.
        """
        raise NotImplementedError(f"`{type(self).__name__}` schedules nothing")

    @staticmethod
    def from_callable(
        name: str,
    ) -> Callable[[Callable[[PrimFunc, Target, bool], Scheduled]], ScheduleRule]:
        """Decorate a function that is what :meth:`apply` of a rule does.

        Args:
            name: of the rule.
        """

        def decorate(
            function: Callable[[PrimFunc, Target, bool], Scheduled],
        ) -> ScheduleRule:
            def apply(
                self: ScheduleRule, func: PrimFunc, target: Target, tunable: bool
            ) -> Scheduled:
                return function(func, target, tunable)

            return type(name, (ScheduleRule,), {"apply": apply})()

        return decorate


class GuardedRule(ScheduleRule, ABC):
    """A rule that does not take what a primitive refuses."""

    for_gpus: ClassVar[bool] = True

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> Scheduled:
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
        """Schedule a program; whether the rule takes it.

        Raises:
            ScheduleError: it does not.
        """


_CPUS = ("llvm", "c")
