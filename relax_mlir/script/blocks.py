"""Blocks and choices of a script while they are being written."""

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
from relax_mlir.script.builder import Frame, FunctionFrame, IRBuilder, current_frame

__all__ = ["BranchFrame", "DataflowFrame", "IfFrame"]


class DataflowFrame(Frame):
    """A dataflow block.

    Attributes:
        output_vars: the variables that are seen outside.
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
            raise ValueError("a dataflow block stands in another one")
        self._open.enter_context(self._function.builder.dataflow())

    def output(self, variables: Sequence[Any]) -> None:
        """Say which variables are seen outside.

        Raises:
            ValueError: that was said before, or one is no variable of the block.
        """
        if self.is_closed:
            raise ValueError("R.output stands once in a dataflow block")
        for variable in variables:
            is_new = isinstance(variable, Var) and variable in self.bound()
            if not is_new:
                raise ValueError(
                    f"R.output: `{variable!r}` is not bound in this dataflow block"
                )
        self.output_vars = tuple(variables)
        self.is_closed = True
        self._emitted = len(self.bound())

    def bound(self) -> list[Var]:
        """The variables bound so far."""
        return [b.var for b in self._function.builder.current_bindings()]

    def end(self) -> None:
        if len(self.bound()) > self._emitted and self.is_closed:
            self._open.close()
            raise ValueError("R.output is the last statement of a dataflow block")
        for variable in self.output_vars:
            if isinstance(variable, DataflowVar):
                # It was emitted before the block said that it is seen outside.
                variable.__class__ = Var  # pyright: ignore[reportAttributeAccessIssue]
        self._open.close()

    def abandon(self) -> None:
        self._open.close()


class IfFrame(Frame):
    """One of two values.

    Attributes:
        var: what the choice is bound to, at the end.
        var_name: what it is called.
    """

    where = "`with R.If(...)`"

    def __init__(self, condition: Any) -> None:
        self._function = current_frame(FunctionFrame, "R.If")
        if self._function.builder.current_block_is_dataflow():
            raise ValueError("an `if` stands outside of dataflow blocks")
        if isinstance(condition, prim.PrimExpr):
            condition = PrimValue(condition)
        self._condition = self._function.as_argument(convert(condition))
        self.branches: dict[str, tuple[SeqExpr, str]] = {}
        self.var: Var | None = None
        self.var_name = ""

    def end(self) -> None:
        missing = {"then", "else"} - set(self.branches)
        if missing:
            raise ValueError("an `if` needs both branches: its value is bound in each")
        (then, name), (other, theirs) = self.branches["then"], self.branches["else"]
        if name != theirs:
            raise ValueError(
                "both branches of an `if` bind the same variable at their end: got "
                f"`{name}` and `{theirs}`"
            )
        self.var_name = name
        self.var = self._function.builder.emit(If(self._condition, then, other))
        IRBuilder.name(name, self.var)


class BranchFrame(Frame):
    """One branch of an ``if``; the value of its last binding is its value."""

    where = "`with R.If(...)`"

    def __init__(self, which: str) -> None:
        self._which = which
        self._owner = current_frame(IfFrame, f"R.{which.title()}")
        self._builder = current_frame(FunctionFrame, "R.If").builder

    def begin(self) -> None:
        self._builder.begin_scope()

    def abandon(self) -> None:
        self._builder.end_scope()

    def end(self) -> None:
        blocks = self._builder.end_scope()
        if not blocks or type(blocks[-1]) is not BindingBlock:
            raise ValueError(
                f"the {self._which} branch of an `if` ends with the binding of its value"
            )
        *before, last = blocks[-1].bindings
        name = last.var.name_hint
        body: Expr = last.var
        kept: list[Binding] = [*before, last]
        if isinstance(last, MatchCast) or not is_leaf(last.value):
            IRBuilder.name(f"{name}_{self._which}" if name != "_" else name, last.var)
        else:
            body, kept = last.value, before
        ends = [BindingBlock(kept)] if kept else []
        self._owner.branches[self._which] = (SeqExpr([*blocks[:-1], *ends], body), name)
