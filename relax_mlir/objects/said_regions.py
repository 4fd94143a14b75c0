"""What a block reads and writes, where a schedule says more than its body tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.dialects.symbols import parse
from relax_mlir.objects import stmt
from relax_mlir.objects.buffer import BufferRegion
from relax_mlir.objects.prim import Range
from relax_mlir.objects.sizes import Symbols

__all__ = ["axis_name", "with_said_regions"]


def axis_name(number: int) -> str:
    """The symbol of an axis in what is said of regions."""
    return f"axis{number}"


def with_said_regions(block: stmt.Block, said: Mapping[str, Any]) -> stmt.Block:
    """A block with the regions that are said of it in place of those derived.

    Args:
        said: for ``read`` and for ``write``, by the number of a buffer as text: the first
            index and the extent of each dimension, in terms of the axes, or nothing where
            the buffer is hidden.
    """
    reads, writes = (
        _said(block, derived, said.get(kind, {}))
        for kind, derived in (("read", block.reads), ("write", block.writes))
    )
    return stmt.Block(
        block.iter_vars,
        reads,
        writes,
        block.name_hint,
        block.body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _said(
    block: stmt.Block,
    derived: Sequence[BufferRegion],
    said: Mapping[str, Sequence[Sequence[str]]],
) -> list[BufferRegion]:
    symbols = Symbols("int32")
    for number, axis in enumerate(block.iter_vars):
        symbols.alias(axis.var, axis_name(number))
    found: list[BufferRegion] = []
    for number, region in enumerate(derived):
        box = said.get(str(number))
        if box is None:
            found.append(region)
        elif box:
            runs = [
                Range.from_min_extent(*(symbols.term(parse(text)) for text in pair))
                for pair in box
            ]
            found.append(BufferRegion(region.buffer, runs))
    return found
