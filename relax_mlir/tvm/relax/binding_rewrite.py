"""Editor of one dataflow block: adds, replaces and removes bindings."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Expr,
    Id,
    SeqExpr,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_variables import all_vars, free_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.function_builder import NameSupply
from relax_mlir.tvm.relax.analysis.unused import remove_all_unused

__all__ = ["DataflowBlockRewrite"]


class DataflowBlockRewrite:
    """Edits one dataflow block of a function step by step.

    The original function and block stay unchanged; ``mutated_dfb`` and
    ``mutated_root_fn`` return the edited ones.

    Args:
        dfb: the block.
        root_fn: the function that contains it.

    Raises:
        ValueError: the block is not in the function.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        self._original = root_fn
        self._function = root_fn
        self._block: BindingBlock = dfb
        self._body = root_fn.body
        self._index = _block_index(dfb, self._body.blocks)
        self._names = NameSupply([v.name_hint for v in all_vars(root_fn)])

    def mutated_dfb(self) -> BindingBlock:
        """The edited block."""
        return self._block

    def mutated_root_fn(self) -> Function:
        """The edited function; the original object while nothing has changed."""
        return self._function

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A copy of a module in which the edited function replaces the original."""
        mutated = IRModule(irmodule.functions, attrs=irmodule.attrs)
        mutated.update_func(self._original.name, self._function)
        return mutated

    def add(self, expr: Expr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind ``expr`` to a new variable at the end of the block.

        Args:
            expr: the bound value.
            name: name of the variable; ``tmp`` and a number by default.
            is_dfvar: make it a dataflow variable, local to the block.
        """
        kind = DataflowVar if is_dfvar else Var
        value = BlockBuilder().normalize(expr)
        name_hint = self._names.fresh("tmp0") if name is None else name
        var = kind(name_hint, value.struct_info_or_none())
        self.add_binding(VarBinding(var, value))

    def add_binding(self, binding: Binding) -> None:
        """Append a binding to the block."""
        self._set_block(DataflowBlock([*self._block.bindings, binding]))

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Replace all uses of ``old_var`` in the function by ``new_var``."""
        replacer = _Replacer(old_var, new_var)
        blocks = [replacer.visit_binding_block(block) for block in self._body.blocks]
        body = replacer.visit_expr(self._body.body)
        if self._index is not None:
            self._block = blocks[self._index]
        self._set_body(blocks, body)

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of an unused variable.

        Args:
            var: the variable.
            allow_undef: do nothing, instead of raising, if the block does not bind it.

        Raises:
            PassError: the variable has uses, or the block does not bind it.
        """
        kept = [b for b in self._block.bindings if b.var.vid != var.vid]
        if len(kept) == len(self._block.bindings):
            if allow_undef:
                return
            raise PassError(
                f"variable `{var.name_hint}`: expected one bound in the block. "
                "`allow_undef=True` ignores others."
            )
        is_used = any(var.vid in _used_by_block(b) for b in self._body.blocks)
        if is_used or var.vid in _free_ids(self._body.body):
            raise PassError(f"variable `{var.name_hint}` is used: it cannot be removed")
        self._set_block(DataflowBlock(kept))

    def remove_all_unused(self) -> None:
        """Remove all dead bindings of the function."""
        cleaned = remove_all_unused(self._body)
        own_vars = {binding.var.vid for binding in self._block.bindings}
        self._index = None
        self._block = DataflowBlock(())
        for index, block in enumerate(cleaned.blocks):
            if own_vars & {binding.var.vid for binding in block.bindings}:
                self._index, self._block = index, block
        self._set_body(cleaned.blocks, cleaned.body)

    def _set_block(self, block: BindingBlock) -> None:
        blocks = list(self._body.blocks)
        if self._index is None:
            self._index = len(blocks)
            blocks.append(block)
        elif block.bindings:
            blocks[self._index] = block
        else:
            del blocks[self._index]
            self._index = None
        self._block = block
        self._set_body(blocks, self._body.body)

    def _set_body(self, blocks: Sequence[BindingBlock], body: Expr) -> None:
        self._body = SeqExpr(blocks, body)
        old = self._original
        self._function = Function(
            old.params, self._body, old.ret_struct_info, old.is_pure, old.attrs
        )


def _block_index(dfb: DataflowBlock, blocks: Sequence[BindingBlock]) -> int:
    """Index of a block among the blocks of the function body."""
    bound = [binding.var.vid for binding in dfb.bindings]
    for index, block in enumerate(blocks):
        if [binding.var.vid for binding in block.bindings] == bound:
            return index
    raise ValueError("the block is not in the function: expected one of its blocks")


def _used_by_block(block: BindingBlock) -> set[Id]:
    return {vid for binding in block.bindings for vid in _free_ids(binding.value)}


def _free_ids(expr: Expr) -> set[Id]:
    return {var.vid for var in free_vars(expr)}


class _Replacer(PyExprMutator):
    """Replaces the uses of one variable by another."""

    def __init__(self, old: Var, new: Var) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def visit_var_(self, op: Var) -> Expr:
        return self.new if op.vid == self.old.vid else super().visit_var_(op)

    def visit_dataflow_var_(self, op: DataflowVar) -> Expr:
        return self.visit_var_(op)
