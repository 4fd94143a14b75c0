"""Which rule takes a kernel, why others do not, and how it may write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir import ir

from relax_mlir.errors import near_misses
from relax_mlir.rewriting import erase
from relax_mlir.schedules.configuration import (
    Configuration,
    find_configuration,
    parse_configuration,
)
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import AnyRule, Refusal
from relax_mlir.traversal import own_operations

__all__ = ["Choice", "Refused", "choose", "chosen_by_text"]


@dataclass(frozen=True)
class Refused:
    """A rule that does not take a kernel.

    Attributes:
        rule: its name; reason: a clause about the kernel.
    """

    rule: str
    reason: str


@dataclass(frozen=True)
class Choice:
    """A rule that takes a kernel.

    Attributes:
        rule: what writes the loops; plan: its plan for the kernel.
        refused: the rules that were asked before.
    """

    rule: AnyRule[Any]  # Any: only the rule knows what its plan is
    plan: Any
    refused: tuple[Refused, ...] = ()

    @property
    def name(self) -> str:
        """The rule's name."""
        return type(self.rule).__name__

    def write(self) -> None:
        """Write the loops at the insertion point."""
        self.rule.write(self.plan)

    def configurations(self) -> tuple[Configuration, ...]:
        """The ways in which the rule can write the kernel, the default first.

        Looks at sizes at the insertion point, and takes back what that writes.
        """
        block = ir.InsertionPoint.current.block
        before = list(own_operations(block))
        found = tuple(dict.fromkeys(self.rule.configurations(self.plan)))
        for operation in reversed(
            [o for o in own_operations(block) if o not in before]
        ):
            erase(operation)
        return found

    def configured(self, configuration: Configuration) -> Choice:
        """The same rule and plan, written in one of those ways."""
        # Rules that list configurations have the field.
        rule = replace(self.rule, configuration=configuration)
        return replace(self, rule=rule)


def choose(kernel: Kernel, rules: Sequence[AnyRule[Any]]) -> Choice:
    """The first rule that takes a kernel.

    Raises:
        Refusal: none does; the reason is that of the last.
    """
    refused: list[Refused] = []
    for rule in rules:
        answer = _ask(rule, kernel)
        if isinstance(answer, Choice):
            return replace(answer, refused=tuple(refused))
        refused.append(answer)
    raise Refusal(refused[-1].reason)


def _ask(rule: AnyRule[Any], kernel: Kernel) -> Choice | Refused:
    try:
        return Choice(rule, rule.plan(kernel))
    except Refusal as refusal:
        return Refused(type(rule).__name__, refusal.reason)


def chosen_by_text(text: str, kernel: Kernel, rules: Sequence[AnyRule[Any]]) -> Choice:
    """What a text such as ``Contraction{rows=6}`` chooses for a kernel.

    Raises:
        ValueError: there is no such rule or configuration, or the rule does not take the
            kernel.
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
    except Refusal as refusal:
        raise ValueError(f"`{name}` does not take it: {refusal.reason}") from None
    before = list(named)[: list(named).index(name)]
    answers = [_ask(named[other], kernel) for other in before]
    refused = tuple(a for a in answers if isinstance(a, Refused))
    choice = replace(choice, refused=refused)
    known = choice.configurations()
    if known:
        return choice.configured(find_configuration(choices, known))
    if choices:
        raise ValueError(f"`{name}` has no choices, got `{text}`")
    return choice
