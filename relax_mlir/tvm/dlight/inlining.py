"""Inlining of blocks into their consumers or producers."""

from __future__ import annotations

from collections.abc import Callable

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.dlight.blocks import BlockInfo
from relax_mlir.tvm.tir.schedule import BlockRV, Schedule

__all__ = [
    "inline_consumers",
    "inline_producers",
    "try_inline",
    "try_inline_contiguous_spatial",
]


def try_inline(sch: Schedule, blocks: list[BlockInfo]) -> list[BlockInfo]:
    """Inline blocks into their consumers, else into their producers, to a fixpoint.

    Returns:
        The blocks that could not be inlined.
    """
    remaining = list(blocks)
    while True:
        for inline in (sch.compute_inline, sch.reverse_compute_inline):
            inlined = next(
                (b for b in remaining if _try_inline_block(inline, b.block_rv)), None
            )
            if inlined is not None:
                remaining.remove(inlined)
                break
        else:
            return remaining


def _try_inline_block(inline: Callable[[BlockRV], None], block: BlockRV) -> bool:
    try:
        inline(block)
    except ScheduleError:
        return False
    return True


def try_inline_contiguous_spatial(
    sch: Schedule, block_infos: list[BlockInfo] | None
) -> list[BlockInfo] | None:
    """Apply :func:`try_inline` to every contiguous run of injective blocks."""
    if block_infos is None:
        return None
    remaining: list[BlockInfo] = []
    injective: list[BlockInfo] = []
    for block in block_infos:
        if block.is_injective():
            injective.append(block)
            continue
        remaining += [*try_inline(sch, injective), block]
        injective = []
    return remaining + try_inline(sch, injective)


def inline_producers(sch: Schedule, block: BlockRV) -> None:
    """Inline the producers of a block, transitively.

    Raises:
        ScheduleError: a producer cannot be inlined.
    """
    while producers := sch.get_producers(block):
        if not any(_try_inline_block(sch.compute_inline, p) for p in producers):
            raise ScheduleError("a producer of the block cannot be inlined")


def inline_consumers(sch: Schedule, block: BlockRV) -> None:
    """Inline the consumers of a block into it, transitively.

    Raises:
        ScheduleError: a consumer cannot be inlined.
    """
    while consumers := sch.get_consumers(block):
        if not any(_try_inline_block(sch.reverse_compute_inline, c) for c in consumers):
            raise ScheduleError("a consumer of the block cannot be inlined")
