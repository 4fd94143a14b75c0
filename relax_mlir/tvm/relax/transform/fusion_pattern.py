"""Fusion patterns and the context of their checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects.expr import Expr, Var
from relax_mlir.tvm.relax.dpl.shorthand import is_op
from relax_mlir.tvm.relax.dpl.structure import DFPattern

__all__ = ["FusionPattern", "PatternCheckContext", "parse_operator_chain"]


@dataclass(frozen=True)
class PatternCheckContext:
    """The arguments of a pattern's check.

    Attributes:
        matched_expr: the matched expression.
        annotated_expr: the expressions that named subpatterns match.
        matched_bindings: the bindings to fuse.
        var_usages: for each variable of the block, the variables whose values use it.
        value_to_bound_var: the variable of each value visited so far.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern whose matches become composite functions.

    Attributes:
        name: the attribute ``Composite`` of the functions; the part before the dot names
            the code generator.
        pattern: the dataflow pattern.
        annotation_patterns: named subpatterns.
        check: whether to accept a match; accepts all by default.
        attrs_getter: returns more attributes, given the matches of named subpatterns.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[Mapping[str, Expr]], Mapping[str, Any]] | None = None

    def __str__(self) -> str:
        """The name, by which pipeline text refers to a registered pattern."""
        return self.name


def parse_operator_chain(text: str) -> FusionPattern:
    """Parses a pattern such as ``name:relax.matmul:relax.nn.relu``.

    The first argument of each operator is the result of the preceding one; the others are
    arbitrary.

    Raises:
        ValueError: there is no such operator.
    """
    name, *operators = text.split(":")
    args: list[DFPattern] = []
    try:
        for operator in operators:
            args = [is_op(operator)(*args, varg_default_wildcard=True)]
    except AttributeError as error:
        raise ValueError(f"pattern `{text}`: {error}") from error
    return FusionPattern(name, args[0])
