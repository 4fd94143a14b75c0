"""``ApplyDefaultSchedule``: programs get the schedules of rules."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.dlight.rule import ScheduleRule
from relax_mlir.module import IRModule
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.pass_context import PassContext
from relax_mlir.pipeline import module_pass
from relax_mlir.relax.target import Target

__all__ = ["ApplyDefaultSchedule"]

_SCHEDULED = "tir.is_scheduled"  # of a program: 1 where nobody is to schedule it again


@module_pass(opt_level=0, name="ApplyDefaultSchedule")
class ApplyDefaultSchedule:
    """Give every program that has no schedule that of the first rule that takes it.

    It is made for the target whose ``with`` is open; for ``cuda`` if there is none.

    Args:
        *rules: in the order in which they are asked.
    """

    def __init__(self, *rules: ScheduleRule) -> None:
        self.rules = rules

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with scheduled programs."""
        target = Target.current() or Target("cuda")
        changed = mod.clone()
        for name, function in mod.functions_items():
            if isinstance(function, PrimFunc) and not _is_scheduled(function):
                made = _scheduled(function, target, self.rules)
                if made is not None:
                    changed.update_func(name, made)
        return changed


def _is_scheduled(function: PrimFunc) -> bool:
    return bool(function.attrs and function.attrs.get(_SCHEDULED))


def _scheduled(
    function: PrimFunc, target: Target, rules: Sequence[ScheduleRule]
) -> PrimFunc | None:
    """What the first rule that takes a program makes of it."""
    for rule in rules:
        found = rule.apply(function, target, False)
        if isinstance(found, Sequence):
            found = found[0] if found else None
        if found is not None:
            made = found.mod.functions_items()[0][1]
            return made.with_attrs({**function.attrs, _SCHEDULED: 1})
    return None
