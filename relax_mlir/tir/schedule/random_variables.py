"""What a schedule calls the loops, the blocks and the numbers that it works with."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["RAND_VAR_TYPE", "BlockRV", "ExprRV", "LoopRV", "SBlockRV"]


class BlockRV:
    """A block of a schedule."""


class LoopRV:
    """A loop of a schedule."""


SBlockRV = BlockRV
ExprRV: TypeAlias = Any  # a scalar term, or a number
RAND_VAR_TYPE: TypeAlias = Any  # any of the three
