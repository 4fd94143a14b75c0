"""Patterns whose matches become functions, and what their checks are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects.expr import Expr, Var
from relax_mlir.relax.dpl.shorthand import is_op
from relax_mlir.relax.dpl.structure import DFPattern

__all__ = ["FusionPattern", "PatternCheckContext", "chain"]


@dataclass(frozen=True)
class PatternCheckContext:
    """What a check is told of a match.

    Attributes:
        matched_expr: the expression.
        annotated_expr: what the patterns with names stand for.
        matched_bindings: the bindings that become one function.
        var_usages: for each variable of the block, those whose values use it.
        value_to_bound_var: the variable of each value so far.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern whose matches become functions.

    Attributes:
        name: the attribute ``Composite`` of the functions; the part before the dot names
            who compiles them.
        pattern: what is matched.
        annotation_patterns: parts of the pattern, by names.
        check: whether a match is taken; all are by default.
        attrs_getter: more attributes, from what the patterns with names stand for.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[Mapping[str, Expr]], Mapping[str, Any]] | None = None

    def __str__(self) -> str:
        """Its name, by which pipeline text knows it once it is registered."""
        return self.name


def chain(text: str) -> FusionPattern:
    """The pattern that ``name:relax.matmul:relax.nn.relu`` stands for.

    Each operator takes what the one in front of it gives, and any other arguments.

    Raises:
        ValueError: there is no such operator.
    """
    name, *operators = text.split(":")
    taken: list[DFPattern] = []
    try:
        for operator in operators:
            taken = [is_op(operator)(*taken, varg_default_wildcard=True)]
    except AttributeError as error:
        raise ValueError(f"pattern `{text}`: {error}") from error
    return FusionPattern(name, taken[0])
