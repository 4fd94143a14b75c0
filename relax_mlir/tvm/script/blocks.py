"""Builder frames of dataflow blocks and ``if`` expressions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    DataflowVar,
    Expr,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    Var,
    convert,
    is_leaf,
)
from relax_mlir.tvm.script.builder import Frame, FunctionFrame, IRBuilder, current_frame

__all__ = ["BranchFrame", "DataflowFrame", "IfFrame"]


class DataflowFrame(Frame):
    """Frame of a dataflow block.

    Attributes:
        output_vars: the variables visible after the block.
    """

    where = "`with R.dataflow()`"
    is_dataflow = True

    def __init__(self) -> None:
        self.output_vars: tuple[Var, ...] = ()
        self.is_closed = False
        self._function = current_frame(FunctionFrame, "R.dataflow()")
        self._open = ExitStack()
        self._emitted = 0

    def begin(self) -> None:
        if self._function.builder.current_block_is_dataflow():
            raise ValueError("dataflow blocks cannot be nested")
        self._open.enter_context(self._function.builder.dataflow())

    def output(self, variables: Sequence[Any]) -> None:
        """Sets the variables visible after the block.

        Raises:
            ValueError: this was done before, or the block does not bind a variable.
        """
        if self.is_closed:
            raise ValueError("R.output occurs twice in a dataflow block")
        for variable in variables:
            is_bound = isinstance(variable, Var) and variable in self.bound()
            if not is_bound:
                raise ValueError(
                    f"R.output: `{variable!r}` is not bound in this dataflow block"
                )
        self.output_vars = tuple(variables)
        self.is_closed = True
        self._emitted = len(self.bound())

    def bound(self) -> list[Var]:
        """Returns the variables bound so far."""
        return [b.var for b in self._function.builder.current_bindings()]

    def end(self) -> None:
        if len(self.bound()) > self._emitted and self.is_closed:
            self._open.close()
            raise ValueError("R.output must be the last statement of a dataflow block")
        for variable in self.output_vars:
            if isinstance(variable, DataflowVar):
                # It was emitted before R.output made it visible after the block.
                variable.__class__ = Var  # pyright: ignore[reportAttributeAccessIssue]
        self._open.close()

    def abandon(self) -> None:
        self._open.close()


class IfFrame(Frame):
    """Frame of an ``if`` expression.

    Attributes:
        var: the variable bound to its value, set at the end.
        var_name: the name of the variable.
    """

    where = "`with R.If(...)`"

    def __init__(self, condition: Any) -> None:
        self._function = current_frame(FunctionFrame, "R.If")
        if self._function.builder.current_block_is_dataflow():
            raise ValueError("`if` is not allowed in a dataflow block")
        if isinstance(condition, prim.PrimExpr):
            condition = PrimValue(condition)
        self._condition = self._function.as_argument(convert(condition))
        self.branches: dict[str, tuple[SeqExpr, str]] = {}
        self.var: Var | None = None
        self.var_name = ""

    def end(self) -> None:
        missing = {"then", "else"} - set(self.branches)
        if missing:
            raise ValueError("`if`: expected two branches, which both bind its value")
        then_branch, name = self.branches["then"]
        else_branch, else_name = self.branches["else"]
        if name != else_name:
            raise ValueError(
                "`if`: expected both branches to end with a binding of the same variable, "
                f"got `{name}` and `{else_name}`"
            )
        self.var_name = name
        value = If(self._condition, then_branch, else_branch)
        self.var = self._function.builder.emit(value)
        IRBuilder.name(name, self.var)


class BranchFrame(Frame):
    """Frame of one branch of an ``if``, whose value is that of its last binding."""

    where = "`with R.If(...)`"

    def __init__(self, branch: str) -> None:
        self._branch = branch
        self._owner = current_frame(IfFrame, f"R.{branch.title()}")
        self._builder = current_frame(FunctionFrame, "R.If").builder

    def begin(self) -> None:
        self._builder.begin_scope()

    def abandon(self) -> None:
        self._builder.end_scope()

    def end(self) -> None:
        blocks = self._builder.end_scope()
        if not blocks or type(blocks[-1]) is not BindingBlock:
            raise ValueError(
                f"the {self._branch} branch of an `if` must end with the binding of its value"
            )
        *before, last = blocks[-1].bindings
        name = last.var.name_hint
        body: Expr = last.var
        kept: list[Binding] = [*before, last]
        if isinstance(last, MatchCast) or not is_leaf(last.value):
            IRBuilder.name(f"{name}_{self._branch}" if name != "_" else name, last.var)
        else:
            body, kept = last.value, before
        ends = [BindingBlock(kept)] if kept else []
        self._owner.branches[self._branch] = (
            SeqExpr([*blocks[:-1], *ends], body),
            name,
        )
