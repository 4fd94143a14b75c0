"""Bindings that nothing needs, removed."""

from __future__ import annotations

from typing import TypeVar

from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Expr,
    Id,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.relax.analysis.purity import contains_impure_call
from relax_mlir.relax.analysis.variables import free_vars
from relax_mlir.relax.expr_functor import PyExprMutator

__all__ = ["remove_all_unused"]

_E = TypeVar("_E", bound=Expr)


def remove_all_unused(func: _E) -> _E:
    """A function or a sequence without the bindings that nothing needs.

    Kept are impure calls outside of dataflow blocks, casts, and all that these use.
    """
    return _Remover().visit_expr(func)


class _Remover(PyExprMutator):
    """Goes through each sequence from its end, and keeps what something after it uses."""

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        needed = _names(op.body)
        blocks: list[BindingBlock] = []
        for block in reversed(op.blocks):
            kept = self._kept(block, needed)
            if kept is not None:
                blocks.append(kept)
        if len(blocks) == len(op.blocks) and all(
            a is b for a, b in zip(reversed(blocks), op.blocks, strict=True)
        ):
            return op
        return SeqExpr(tuple(reversed(blocks)), op.body, op.span)

    def _kept(self, block: BindingBlock, needed: set[Id]) -> BindingBlock | None:
        """What is left of a block; adds the variables that it uses to ``needed``."""
        is_dataflow = isinstance(block, DataflowBlock)
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            if binding.var.vid not in needed and _is_removable(binding, is_dataflow):
                continue
            binding = self._inside(binding)
            kept.append(binding)
            needed |= _names(binding.value)
        kept.reverse()
        if len(kept) == len(block.bindings) and all(
            a is b for a, b in zip(kept, block.bindings, strict=True)
        ):
            return block
        return type(block)(kept) if kept else None

    def _inside(self, binding: Binding) -> Binding:
        """A binding of which branches and inner functions are cleaned too."""
        if not isinstance(binding.value, (If, Function)):
            return binding
        value = self.visit_expr(binding.value)
        return binding if value is binding.value else VarBinding(binding.var, value)


def _names(expr: Expr) -> set[Id]:
    return {var.vid for var in free_vars(expr)}


def _is_removable(binding: Binding, is_dataflow: bool) -> bool:
    if isinstance(binding, MatchCast):
        return False
    return is_dataflow or not contains_impure_call(binding.value)
