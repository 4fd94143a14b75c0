"""Add, replace and remove the bindings of one dataflow block."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.relax.analysis.unused import remove_all_unused
from relax_mlir.relax.analysis.variables import all_vars, free_vars
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.open_function import NameSupply

__all__ = ["DataflowBlockRewrite"]


class DataflowBlockRewrite:
    """Changes one dataflow block of a function step by step.

    The function and the block that were given stay as they are; ``mutated_dfb`` and
    ``mutated_root_fn`` give those that the steps made.

    Args:
        dfb: the block.
        root_fn: the function that it stands in.

    Raises:
        ValueError: the block does not stand in the function.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        self._original = root_fn
        self._function = root_fn
        self._block: BindingBlock = dfb
        self._body = root_fn.body
        self._place = _place(dfb, self._body.blocks)
        self._names = NameSupply([v.name_hint for v in all_vars(root_fn)])

    def mutated_dfb(self) -> BindingBlock:
        """The block as it is now."""
        return self._block

    def mutated_root_fn(self) -> Function:
        """The function as it is now; the given one while nothing changed."""
        return self._function

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """A copy of a module, with the function as it is now in place of the given one."""
        made = IRModule(irmodule.functions, attrs=irmodule.attrs)
        made.update_func(self._original.name, self._function)
        return made

    def add(self, expr: Expr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind ``expr`` to a new variable at the end of the block.

        Args:
            expr: the value.
            name: what the variable is called; by default ``tmp`` and a number.
            is_dfvar: whether only the block sees it.
        """
        kind = DataflowVar if is_dfvar else Var
        value = BlockBuilder().normalize(expr)
        called = self._names.fresh("tmp0") if name is None else name
        self.add_binding(VarBinding(kind(called, value.struct_info_or_none()), value))

    def add_binding(self, binding: Binding) -> None:
        """Add a binding at the end of the block."""
        self._set_block(DataflowBlock([*self._block.bindings, binding]))

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Use ``new_var`` wherever the function uses ``old_var``."""
        replacer = _Replacer(old_var, new_var)
        blocks = [replacer.visit_binding_block(block) for block in self._body.blocks]
        body = replacer.visit_expr(self._body.body)
        if self._place is not None:
            self._block = blocks[self._place]
        self._set_body(blocks, body)

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nothing uses.

        Args:
            var: the variable.
            allow_undef: whether the block need not bind it.

        Raises:
            PassError: something uses the variable, or the block does not bind it.
        """
        kept = [b for b in self._block.bindings if b.var.vid != var.vid]
        if len(kept) == len(self._block.bindings):
            if allow_undef:
                return
            raise PassError(
                f"variable `{var.name_hint}`: expected one that the block binds. "
                "`allow_undef=True` ignores others."
            )
        if any(var.vid in _used(block) for block in self._body.blocks) or var.vid in (
            _names_in(self._body.body)
        ):
            raise PassError(f"variable `{var.name_hint}` is used: it cannot be removed")
        self._set_block(DataflowBlock(kept))

    def remove_all_unused(self) -> None:
        """Remove all bindings of the function that nothing needs."""
        cleaned = remove_all_unused(self._body)
        mine = {binding.var.vid for binding in self._block.bindings}
        self._place = None
        self._block = DataflowBlock(())
        for number, block in enumerate(cleaned.blocks):
            if mine & {binding.var.vid for binding in block.bindings}:
                self._place, self._block = number, block
        self._set_body(cleaned.blocks, cleaned.body)

    def _set_block(self, block: BindingBlock) -> None:
        blocks = list(self._body.blocks)
        if self._place is None:
            self._place = len(blocks)
            blocks.append(block)
        elif block.bindings:
            blocks[self._place] = block
        else:
            del blocks[self._place]
            self._place = None
        self._block = block
        self._set_body(blocks, self._body.body)

    def _set_body(self, blocks: Sequence[BindingBlock], body: Expr) -> None:
        self._body = SeqExpr(blocks, body)
        old = self._original
        self._function = Function(
            old.params, self._body, old.ret_struct_info, old.is_pure, old.attrs
        )


def _place(dfb: DataflowBlock, blocks: Sequence[BindingBlock]) -> int:
    """Where a block stands."""
    wanted = [binding.var.vid for binding in dfb.bindings]
    for number, block in enumerate(blocks):
        if [binding.var.vid for binding in block.bindings] == wanted:
            return number
    raise ValueError(
        "the block does not stand in the function: expected one of its own"
    )


def _used(block: BindingBlock) -> set[Id]:
    return {vid for binding in block.bindings for vid in _names_in(binding.value)}


def _names_in(expr: Expr) -> set[Id]:
    return {var.vid for var in free_vars(expr)}


class _Replacer(PyExprMutator):
    """Reads one variable in place of another."""

    def __init__(self, old: Var, new: Var) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def visit_var_(self, op: Var) -> Expr:
        return self.new if op.vid == self.old.vid else super().visit_var_(op)

    def visit_dataflow_var_(self, op: DataflowVar) -> Expr:
        return self.visit_var_(op)
