"""Rules: what becomes of a call of an operator of torch."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.objects.expr import Expr

__all__ = ["Made", "Rule", "rules", "torch_rule"]

Made: TypeAlias = "Expr | Sequence[Expr | None]"
"""What a rule makes: a value, or one for each result; None for one that nobody reads."""

Rule: TypeAlias = "Callable[[TorchNode], Made]"

_RULES: dict[str, Rule] = {}


def torch_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule for operators, such as ``aten.add.Tensor``.

    An operator with a rule is not decomposed.

    Raises:
        ValueError: one of them has a rule.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"`{name}`: expected one rule, got two")
            _RULES[name] = rule
        return rule

    return register


def rules() -> Mapping[str, Rule]:
    """All rules by the operator that they are for."""
    return MappingProxyType(_RULES)
