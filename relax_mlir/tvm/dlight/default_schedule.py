"""``ApplyDefaultSchedule``: the pass that applies schedule rules to PrimFuncs."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.pipeline import module_pass
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm.dlight.rule import ScheduleRule
from relax_mlir.tvm.relax.target import Target

__all__ = ["ApplyDefaultSchedule"]

_SCHEDULED = "tir.is_scheduled"  # PrimFunc attribute: 1 once it is scheduled


@module_pass(opt_level=0, name="ApplyDefaultSchedule")
class ApplyDefaultSchedule:
    """Schedule every unscheduled PrimFunc with the first rule that applies.

    The target is the current one (``with target:``), by default ``cuda``.

    Args:
        *rules: the rules, in the order in which they are tried.
    """

    def __init__(self, *rules: ScheduleRule) -> None:
        self.rules = rules

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """A copy of the module with scheduled PrimFuncs."""
        target = Target.current() or Target("cuda")
        changed = mod.clone()
        for name, function in mod.functions_items():
            if isinstance(function, PrimFunc) and not _is_scheduled(function):
                scheduled = _scheduled(function, target, self.rules)
                if scheduled is not None:
                    changed.update_func(name, scheduled)
        return changed


def _is_scheduled(function: PrimFunc) -> bool:
    return bool(function.attrs and function.attrs.get(_SCHEDULED))


def _scheduled(
    function: PrimFunc, target: Target, rules: Sequence[ScheduleRule]
) -> PrimFunc | None:
    """Apply the first matching rule to a PrimFunc; None if no rule matches."""
    for rule in rules:
        result = rule.apply(function, target, False)
        if isinstance(result, Sequence):
            result = result[0] if result else None
        if result is not None:
            scheduled = result.mod.functions_items()[0][1]
            return scheduled.with_attrs({**function.attrs, _SCHEDULED: 1})
    return None
