"""State of Relax functions under construction: blocks, bindings and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Expr,
    Id,
    Var,
)
from relax_mlir.objects.prim.symbolic_sizes import Symbols

__all__ = ["BlockSequence", "FunctionFrame", "NameSupply"]


class NameSupply:
    """Supplies unique names: ``lv``, ``lv1``, ``lv2``, ...

    Args:
        taken: names that are in use.
        shared: a supply whose names are disjoint from this one's.
    """

    def __init__(
        self, taken: Sequence[str] = (), shared: NameSupply | None = None
    ) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}
        self._given = self if shared is None else shared

    def fresh(self, wish: str) -> str:
        """``wish``, or ``wish`` with the first number that makes it unique."""
        supply, name = self._given, wish.replace(".", "_")
        while name in self._taken or name in supply._taken:
            supply._counts[wish] = supply._counts.get(wish, 0) + 1
            name = f"{wish.replace('.', '_')}{supply._counts[wish]}"
        supply._taken.add(name)
        return name

    def take(self, name: str) -> None:
        """Marks a name as used."""
        self._taken.add(name)


@dataclass
class BlockSequence:
    """A sequence of binding blocks under construction."""

    blocks: list[BindingBlock] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    is_dataflow: bool = False
    named: dict[int, tuple[Expr, Expr]] = field(
        default_factory=dict
    )  # nested expressions

    def end_block(self) -> None:
        """Ends the current block and begins a new one without dataflow."""
        if self.bindings:
            kind = DataflowBlock if self.is_dataflow else BindingBlock
            self.blocks.append(kind(self.bindings))
        self.bindings = []
        self.named = {}
        self.is_dataflow = False


@dataclass
class FunctionFrame:
    """A Relax function under construction.

    Attributes:
        params: its parameters; None if they are given with the result.
        sequences: the block sequences under construction, outermost first.
        bound: the value of each bound variable.
    """

    name: str
    params: list[Var] | None
    attrs: dict[str, Any]
    is_pure: bool
    is_private: bool
    names: NameSupply = field(default_factory=NameSupply)
    symbols: Symbols = field(default_factory=Symbols)
    sequences: list[BlockSequence] = field(default_factory=lambda: [BlockSequence()])
    bound: dict[Id, Expr] = field(default_factory=dict)
    is_finished: bool = False
