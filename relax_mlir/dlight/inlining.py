"""Blocks that are computed where they are used."""

from __future__ import annotations

from collections.abc import Callable

from relax_mlir.dlight.blocks import BlockInfo
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import BlockRV, Schedule

__all__ = [
    "inline_consumers",
    "inline_producers",
    "try_inline",
    "try_inline_contiguous_spatial",
]


def try_inline(sch: Schedule, blocks: list[BlockInfo]) -> list[BlockInfo]:
    """Inline as many blocks as can be, into their readers, else into their writers.

    Returns:
        Those that are left.
    """
    left = list(blocks)
    while True:
        for inline in (sch.compute_inline, sch.reverse_compute_inline):
            found = next((b for b in left if _inlines(inline, b.block_rv)), None)
            if found is not None:
                left.remove(found)
                break
        else:
            return left


def _inlines(inline: Callable[[BlockRV], None], block: BlockRV) -> bool:
    try:
        inline(block)
    except ScheduleError:
        return False
    return True


def try_inline_contiguous_spatial(
    sch: Schedule, block_infos: list[BlockInfo] | None
) -> list[BlockInfo] | None:
    """:func:`try_inline` of every run of blocks without sums."""
    if block_infos is None:
        return None
    found: list[BlockInfo] = []
    run: list[BlockInfo] = []
    for block in block_infos:
        if block.is_injective():
            run.append(block)
            continue
        found += [*try_inline(sch, run), block]
        run = []
    return found + try_inline(sch, run)


def inline_producers(sch: Schedule, block: BlockRV) -> None:
    """Inline what a block reads, and what that reads.

    Raises:
        ScheduleError: something is left that cannot be.
    """
    while producers := sch.get_producers(block):
        if not any(_inlines(sch.compute_inline, p) for p in producers):
            raise ScheduleError("what the block reads cannot be inlined")


def inline_consumers(sch: Schedule, block: BlockRV) -> None:
    """Inline what reads a block into it, and what reads that.

    Raises:
        ScheduleError: something is left that cannot be.
    """
    while consumers := sch.get_consumers(block):
        if not any(_inlines(sch.reverse_compute_inline, c) for c in consumers):
            raise ScheduleError("a reader of the block cannot be inlined")
