"""Selection of the schedule rule of a kernel, with the reasons of rejected rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir import ir

from relax_mlir.errors import near_misses
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.configuration import (
    Configuration,
    find_configuration,
    parse_configuration,
)
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import NotApplicable, ScheduleRule

__all__ = ["RejectedRule", "SelectedRule", "choose", "choose_by_text"]


@dataclass(frozen=True)
class RejectedRule:
    """A rule that does not apply to a kernel.

    Attributes:
        rule: name of the rule; reason: a clause about the kernel.
    """

    rule: str
    reason: str


@dataclass(frozen=True)
class SelectedRule:
    """The selected rule of a kernel.

    Attributes:
        rule: the rule; plan: its match of the kernel.
        refused: the rules tried before it.
    """

    rule: ScheduleRule[Any]  # Any: the plan's type is private to the rule
    plan: Any
    refused: tuple[RejectedRule, ...] = ()

    @property
    def name(self) -> str:
        """Name of the rule."""
        return type(self.rule).__name__

    def write(self) -> None:
        """Emit the loops at the insertion point."""
        self.rule.write(self.plan)

    def configurations(self) -> tuple[Configuration, ...]:
        """Configurations of the kernel, the default first.

        Rules may emit size arithmetic at the insertion point here; it is erased again.
        """
        block = ir.InsertionPoint.current.block
        before = list(own_operations(block))
        result = tuple(dict.fromkeys(self.rule.configurations(self.plan)))
        for operation in reversed(
            [o for o in own_operations(block) if o not in before]
        ):
            erase(operation)
        return result

    def configured(self, configuration: Configuration) -> SelectedRule:
        """The same rule and plan with a given configuration."""
        # Rules with configurations have this field.
        rule = replace(self.rule, configuration=configuration)
        return replace(self, rule=rule)


def choose(kernel: Kernel, rules: Sequence[ScheduleRule[Any]]) -> SelectedRule:
    """Select the first rule that applies to a kernel.

    Raises:
        NotApplicable: none applies; with the reason of the last.
    """
    refused: list[RejectedRule] = []
    for rule in rules:
        result = _try_rule(rule, kernel)
        if isinstance(result, SelectedRule):
            return replace(result, refused=tuple(refused))
        refused.append(result)
    raise NotApplicable(refused[-1].reason)


def _try_rule(rule: ScheduleRule[Any], kernel: Kernel) -> SelectedRule | RejectedRule:
    try:
        return SelectedRule(rule, rule.plan(kernel))
    except NotApplicable as refusal:
        return RejectedRule(type(rule).__name__, refusal.reason)


def choose_by_text(
    text: str, kernel: Kernel, rules: Sequence[ScheduleRule[Any]]
) -> SelectedRule:
    """Select the rule and configuration named by a text such as ``Gemm{rows=6}``.

    Raises:
        ValueError: the rule or configuration is unknown, or does not apply to the kernel.
    """
    name, choices = parse_configuration(text)
    named = {type(rule).__name__: rule for rule in rules}
    if name not in named:
        raise ValueError(
            f"unknown rule `{name}`: expected one of {', '.join(named)}."
            f"{near_misses(name, named)}"
        )
    try:
        choice = choose(kernel, [named[name]])
    except NotApplicable as refusal:
        raise ValueError(f"`{name}` does not take it: {refusal.reason}") from None
    before = list(named)[: list(named).index(name)]
    results = [_try_rule(named[other], kernel) for other in before]
    refused = tuple(r for r in results if isinstance(r, RejectedRule))
    choice = replace(choice, refused=refused)
    known = choice.configurations()
    if known:
        return choice.configured(find_configuration(choices, known))
    if choices:
        raise ValueError(f"`{name}` has no choices, got `{text}`")
    return choice
