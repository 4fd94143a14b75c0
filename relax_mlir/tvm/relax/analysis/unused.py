"""Dead-code elimination of Relax bindings."""

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
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_variables import free_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.purity import contains_impure_call

__all__ = ["remove_all_unused"]

_E = TypeVar("_E", bound=Expr)


def remove_all_unused(func: _E) -> _E:
    """Remove the dead bindings of a function or a sequence expression.

    Impure calls outside of dataflow blocks and casts are live, and so are their operands.
    """
    return _Remover().visit_expr(func)


class _Remover(PyExprMutator):
    """Backward liveness sweep over each sequence expression."""

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        live = _free_ids(op.body)
        blocks: list[BindingBlock] = []
        for block in reversed(op.blocks):
            kept = self._live_part(block, live)
            if kept is not None:
                blocks.append(kept)
        if len(blocks) == len(op.blocks) and all(
            a is b for a, b in zip(reversed(blocks), op.blocks, strict=True)
        ):
            return op
        return SeqExpr(tuple(reversed(blocks)), op.body, op.span)

    def _live_part(self, block: BindingBlock, live: set[Id]) -> BindingBlock | None:
        """The live bindings of a block, or None; adds their free variables to ``live``."""
        is_dataflow = isinstance(block, DataflowBlock)
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            if binding.var.vid not in live and _is_removable(binding, is_dataflow):
                continue
            binding = self._cleaned_inside(binding)
            kept.append(binding)
            live |= _free_ids(binding.value)
        kept.reverse()
        if len(kept) == len(block.bindings) and all(
            a is b for a, b in zip(kept, block.bindings, strict=True)
        ):
            return block
        return type(block)(kept) if kept else None

    def _cleaned_inside(self, binding: Binding) -> Binding:
        """Removes dead bindings in branches and local functions of a binding."""
        if not isinstance(binding.value, (If, Function)):
            return binding
        value = self.visit_expr(binding.value)
        return binding if value is binding.value else VarBinding(binding.var, value)


def _free_ids(expr: Expr) -> set[Id]:
    return {var.vid for var in free_vars(expr)}


def _is_removable(binding: Binding, is_dataflow: bool) -> bool:
    if isinstance(binding, MatchCast):
        return False
    return is_dataflow or not contains_impure_call(binding.value)
