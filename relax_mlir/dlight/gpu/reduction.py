"""Reduction: one sum, whose parts some threads compute."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.dlight.blocks import (
    detect_dominant_read,
    extent_of,
    is_broadcast_epilogue,
    normalize_prim_func,
    plain_axes,
)
from relax_mlir.dlight.gpu.threads import max_threads_per_block, threads_for
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["Reduction"]

_THREADS = 256  # of a block, where neighbours of a sum lie side by side
_TILE = 16  # sums that a block computes side by side, and threads for each of them


class Reduction(GuardedRule):
    """One block with a sum, and maybe one behind it that uses the result.

    Where terms of a sum lie side by side, all threads of a block share a sum; where
    sums do, a tile of threads shares as many. Parts of sums are a block of their own if
    all threads have as many terms.
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or not infos[0].is_reduction():
            return False
        if len(infos) == 2 and not infos[1].is_injective():
            return False
        info, *rest = infos
        block = sch.get(info.block_rv)
        axes = plain_axes(block, detect_dominant_read(block))
        if len(block.writes) != 1 or not axes or set(info.dom_kind()) - {"S", "R"}:
            return False
        if len(axes) < len(info.iters):
            return False
        ordered = [info.iters[n] for n in axes]
        spatial = [i.loop_rv for i in ordered if i.kind == "S"]
        reduced = [i.loop_rv for i in ordered if i.kind == "R"]
        unit = sch.add_unit_loop(info.block_rv)
        if not spatial:
            spatial = [sch.add_unit_loop(reduced[0])]
        sch.reorder(*spatial, *reduced, unit)
        sums, terms = sch.fuse(*spatial), sch.fuse(*reduced)
        epilogue = rest[0].block_rv if rest else None
        if ordered[-1].kind == "R":
            most = min(_THREADS, max_threads_per_block(target))
            _share_sum(sch, info.block_rv, terms, most, epilogue)
        else:
            width = _width([i.dom for i in ordered if i.kind == "S"])
            _share_tile(sch, info.block_rv, (sums, terms), width, epilogue)
        return True


def _share_sum(
    sch: Schedule, block: BlockRV, terms: LoopRV, most: int, epilogue: BlockRV | None
) -> None:
    """All threads of a block compute parts of a sum."""
    extent = extent_of(sch, terms)
    threads = threads_for(extent, most)
    rest, tx = sch.split(terms, [None, threads])
    is_whole = isinstance(extent, int) and extent % threads == 0
    changed = sch.rfactor(tx, 0) if is_whole else block
    bx, rest, tx, _ = sch.get_loops(changed)
    sch.reorder(bx, tx, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    if is_whole:
        sch.set_scope(changed, 0, "local")
        sch.decompose_reduction(changed, rest)
        sch.reverse_compute_at(block, bx, preserve_unit_loops=True)
        _, tx, *spatial = sch.get_loops(block)
        sch.reorder(sch.fuse(*spatial), tx)
        sch.bind(tx, "threadIdx.x")
    if epilogue is None:
        return
    sch.reverse_compute_at(epilogue, bx)
    if not is_broadcast_epilogue(sch, block, epilogue):
        sch.set_scope(block, 0, "local")
        return
    sch.set_scope(block, 0, "shared")
    _, *spatial = sch.get_loops(epilogue)
    _, tx = sch.split(sch.fuse(*spatial), [None, threads])
    sch.bind(tx, "threadIdx.x")


def _width(extents: Sequence[int | PrimExpr]) -> int:
    """How many sums a tile has: where they are of several rows, all of the same one."""
    last = extents[-1]
    if not isinstance(last, int):
        return _TILE
    most = min(_TILE, last)
    fitting = [n for n in range(1, most + 1) if last % n == 0]
    return most if len(extents) == 1 else fitting[-1]


def _share_tile(
    sch: Schedule,
    block: BlockRV,
    loops: tuple[LoopRV, LoopRV],
    width: int,
    epilogue: BlockRV | None,
) -> None:
    """A tile of threads computes parts of as many sums as it is wide."""
    sums, terms = loops
    length = extent_of(sch, terms)
    is_whole = isinstance(length, int) and length % _TILE == 0
    sch.split(sums, [None, width])
    _, ty = sch.split(terms, [None, _TILE])
    changed = sch.rfactor(ty, 0) if is_whole else block
    bx, tx, rest, ty, _ = sch.get_loops(changed)
    sch.reorder(bx, tx, ty, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    sch.bind(ty, "threadIdx.y")
    if is_whole:
        sch.set_scope(changed, 0, "local")
        sch.decompose_reduction(changed, rest)
        sch.reverse_compute_at(block, bx, preserve_unit_loops=True)
        _, ty, *spatial = sch.get_loops(block)
        tx = sch.fuse(*spatial)
        sch.reorder(tx, ty)
        sch.bind(tx, "threadIdx.x")
        sch.bind(ty, "threadIdx.y")
    if epilogue is None:
        return
    sch.reverse_compute_at(epilogue, bx)
    _, *spatial = sch.get_loops(epilogue)
    spatial = spatial or [sch.add_unit_loop(epilogue)]
    if is_broadcast_epilogue(sch, block, epilogue):
        sch.set_scope(block, 0, "shared")
        _, tx, ty = sch.split(sch.fuse(*spatial), [None, width, _TILE])
        sch.bind(ty, "threadIdx.y")
    else:
        sch.set_scope(block, 0, "local")
        tx, _ = sch.split(sch.fuse(*spatial), [width, None])
    sch.bind(tx, "threadIdx.x")
