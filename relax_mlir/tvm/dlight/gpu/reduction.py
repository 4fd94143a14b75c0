"""Reduction rule: one cross-thread reduction, with an optional epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm.dlight.blocks import (
    detect_dominant_read,
    distinct_region_iter_vars,
    is_broadcast_epilogue,
    loop_extent,
    normalize_prim_func,
)
from relax_mlir.tvm.dlight.gpu.threads import max_threads_per_block, thread_count
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["Reduction"]

_THREADS = 256  # per thread block, if the reduction axis is contiguous
_TILE = 16  # adjacent results of a thread block, and threads per result


class Reduction(GuardedRule):
    """One reduction block, and at most one injective epilogue.

    If the reduction axis is contiguous, all threads of a block reduce one result; if a
    spatial axis is, a two-dimensional thread block reduces a tile of adjacent results.
    Partial results per thread (rfactor) are used if the extent divides evenly.
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
        axes = distinct_region_iter_vars(block, detect_dominant_read(block))
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
        results, k = sch.fuse(*spatial), sch.fuse(*reduced)
        epilogue = rest[0].block_rv if rest else None
        if ordered[-1].kind == "R":
            limit = min(_THREADS, max_threads_per_block(target))
            _reduce_row(sch, info.block_rv, k, limit, epilogue)
        else:
            width = _tile_width([i.dom for i in ordered if i.kind == "S"])
            _reduce_tile(sch, info.block_rv, (results, k), width, epilogue)
        return True


def _reduce_row(
    sch: Schedule, block: BlockRV, k: LoopRV, limit: int, epilogue: BlockRV | None
) -> None:
    """Reduce one result per thread block, with partial results per thread."""
    extent = loop_extent(sch, k)
    threads = thread_count(extent, limit)
    rest, tx = sch.split(k, [None, threads])
    is_divisible = isinstance(extent, int) and extent % threads == 0
    partial = sch.rfactor(tx, 0) if is_divisible else block
    bx, rest, tx, _ = sch.get_loops(partial)
    sch.reorder(bx, tx, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    if is_divisible:
        sch.set_scope(partial, 0, "local")
        sch.decompose_reduction(partial, rest)
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


def _tile_width(extents: Sequence[int | PrimExpr]) -> int:
    """Width of a tile of results; with several spatial axes, a divisor of the last."""
    last = extents[-1]
    if not isinstance(last, int):
        return _TILE
    limit = min(_TILE, last)
    divisors = [n for n in range(1, limit + 1) if last % n == 0]
    return limit if len(extents) == 1 else divisors[-1]


def _reduce_tile(
    sch: Schedule,
    block: BlockRV,
    loops: tuple[LoopRV, LoopRV],
    width: int,
    epilogue: BlockRV | None,
) -> None:
    """Reduce ``width`` adjacent results per thread block, ``_TILE`` threads for each."""
    results, k = loops
    k_extent = loop_extent(sch, k)
    is_divisible = isinstance(k_extent, int) and k_extent % _TILE == 0
    sch.split(results, [None, width])
    _, ty = sch.split(k, [None, _TILE])
    partial = sch.rfactor(ty, 0) if is_divisible else block
    bx, tx, rest, ty, _ = sch.get_loops(partial)
    sch.reorder(bx, tx, ty, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    sch.bind(ty, "threadIdx.y")
    if is_divisible:
        sch.set_scope(partial, 0, "local")
        sch.decompose_reduction(partial, rest)
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
