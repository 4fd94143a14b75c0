"""Functions of Relax while they are being built: their blocks, and names in them."""

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
from relax_mlir.objects.sizes import Symbols

__all__ = ["BlockSequence", "NameSupply", "OpenFunction"]


class NameSupply:
    """Gives each name once: ``lv``, ``lv1``, ``lv2``, ...

    Args:
        taken: names that it does not give.
        shared: another supply that gives none of the names that this one gives, nor this
            one any of its.
    """

    def __init__(
        self, taken: Sequence[str] = (), shared: NameSupply | None = None
    ) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}
        self._given = self if shared is None else shared

    def fresh(self, wish: str) -> str:
        """``wish``, or with the next number that makes it new."""
        given, name = self._given, wish.replace(".", "_")
        while name in self._taken or name in given._taken:
            given._counts[wish] = given._counts.get(wish, 0) + 1
            name = f"{wish.replace('.', '_')}{given._counts[wish]}"
        given._taken.add(name)
        return name

    def take(self, name: str) -> None:
        """From here on ``name`` is taken."""
        self._taken.add(name)


@dataclass
class BlockSequence:
    """Blocks of bindings that are being built."""

    blocks: list[BindingBlock] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    is_dataflow: bool = False
    named: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)  # what was nested

    def end_block(self) -> None:
        """What follows stands in another block."""
        if self.bindings:
            kind = DataflowBlock if self.is_dataflow else BindingBlock
            self.blocks.append(kind(self.bindings))
        self.bindings = []
        self.named = {}
        self.is_dataflow = False


@dataclass
class OpenFunction:
    """One function that is being built.

    Attributes:
        params: its parameters; None where they come with the result.
        sequences: what is open, outermost first.
        bound: the values of its variables.
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
