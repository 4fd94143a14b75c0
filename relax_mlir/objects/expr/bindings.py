"""Bindings, binding blocks, sequence expressions and conditionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.expr.variables import Var, to_struct_info
from relax_mlir.objects.printing import Printed

__all__ = [
    "Binding",
    "BindingBlock",
    "DataflowBlock",
    "If",
    "MatchCast",
    "SeqExpr",
    "VarBinding",
    "as_sequence",
]


class Binding(Printed):
    """Base class of bindings of a variable to a value."""

    var: Var
    value: Expr
    span: object = None

    def __init__(self) -> None:
        raise TypeError("Binding: expected a `VarBinding` or a `MatchCast`")


class VarBinding(Binding):
    """``var = value``."""

    def __init__(self, var: Var, value: Expr, span: object = None) -> None:
        self.var = instance_of(var, Var, "VarBinding: `var`", "a variable")
        self.value = instance_of(value, Expr, "VarBinding: `value`", "an expression")


class MatchCast(Binding):
    """``var = R.match_cast(value, struct_info)``: checked at run time."""

    def __init__(
        self, var: Var, value: Expr, struct_info: Any, span: object = None
    ) -> None:
        self.var = instance_of(var, Var, "MatchCast: `var`", "a variable")
        self.value = instance_of(value, Expr, "MatchCast: `value`", "an expression")
        self.struct_info: StructInfo = to_struct_info(struct_info)

    @property
    def ty(self) -> StructInfo:
        """Alias of ``struct_info`` in TVM's newest releases."""
        return self.struct_info


class BindingBlock(Printed):
    """A sequence of bindings."""

    def __init__(self, bindings: Sequence[Binding], span: object = None) -> None:
        self.bindings: tuple[Binding, ...]
        self.bindings = sequence_of(bindings, type(self).__name__, "bindings")
        for binding in self.bindings:
            instance_of(
                binding, Binding, f"{type(self).__name__}: `bindings`", "bindings"
            )


class DataflowBlock(BindingBlock):
    """A binding block without side effects, whose bindings may be reordered."""


class SeqExpr(Expr):
    """Binding blocks followed by a result value.

    Attributes:
        blocks: the binding blocks, in order.
        body: the result: a variable, a constant, or a tuple of these.
    """

    def __init__(
        self, blocks: Sequence[BindingBlock], body: Expr, span: object = None
    ) -> None:
        self.blocks = sequence_of(blocks, "SeqExpr: `blocks`", "blocks")
        for block in self.blocks:
            instance_of(block, BindingBlock, "SeqExpr: `blocks`", "blocks of bindings")
        self.body = instance_of(body, Expr, "SeqExpr: `body`", "an expression")

    def struct_info_or_none(self) -> StructInfo | None:
        return self._struct_info or self.body.struct_info_or_none()


def as_sequence(expr: Expr) -> SeqExpr:
    """An expression wrapped as a sequence expression, for a function or a branch."""
    return expr if isinstance(expr, SeqExpr) else SeqExpr((), expr)


class If(Expr):
    """A conditional expression.

    Attributes:
        cond: a boolean tensor of rank 0, or a boolean scalar.
        true_branch, false_branch: :class:`SeqExpr`.
    """

    def __init__(
        self, cond: Expr, true_branch: Expr, false_branch: Expr, span: object = None
    ) -> None:
        self.cond = cond
        self.true_branch = as_sequence(true_branch)
        self.false_branch = as_sequence(false_branch)
