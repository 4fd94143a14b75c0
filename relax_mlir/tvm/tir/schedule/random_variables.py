"""Random variables: references to blocks, loops and integers of a schedule."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["RAND_VAR_TYPE", "BlockRV", "ExprRV", "LoopRV", "SBlockRV"]


class BlockRV:
    """A random variable that refers to a block."""


class LoopRV:
    """A random variable that refers to a loop."""


SBlockRV = BlockRV
ExprRV: TypeAlias = Any  # a scalar expression or an integer
RAND_VAR_TYPE: TypeAlias = Any  # any of the three
