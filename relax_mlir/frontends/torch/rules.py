"""Registry of the rules that convert calls of torch operators."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.objects.expr import Expr

__all__ = ["Rule", "RuleResult", "rules", "torch_rule"]

RuleResult: TypeAlias = "Expr | Sequence[Expr | None]"
"""The result of a rule: a value, or a list of one per result; None for an unused one."""

Rule: TypeAlias = "Callable[[TorchNode], RuleResult]"

_RULES: dict[str, Rule] = {}


def torch_rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator that registers the rule of operators, such as ``aten.add.Tensor``.

    An operator with a rule is not decomposed.

    Raises:
        ValueError: an operator has a rule already.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"`{name}`: expected one rule, got two")
            _RULES[name] = rule
        return rule

    return register


def rules() -> Mapping[str, Rule]:
    """All rules by operator name."""
    return MappingProxyType(_RULES)
