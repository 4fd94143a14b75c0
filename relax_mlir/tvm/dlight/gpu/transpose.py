"""Transpose rule: tiles go through shared memory."""

from __future__ import annotations

from relax_mlir.tvm.dlight.blocks import (
    distinct_region_iter_vars,
    normalize_prim_func,
    used_iter_vars,
)
from relax_mlir.tvm.dlight.inlining import try_inline
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import LoopRV, Schedule

__all__ = ["Transpose"]

_TILE = 32  # rows and columns of a tile
_ROWS = 8  # thread rows per block


class Transpose(GuardedRule):
    """One injective block whose contiguous read axis is not its contiguous write axis.

    A thread block stages a tile in shared memory, so that global reads and writes are
    both coalesced.
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        normalized = normalize_prim_func(sch)
        if normalized is None:
            return False
        infos = try_inline(sch, normalized)
        if len(infos) != 1 or not infos[0].is_injective():
            return False
        block = infos[0].block_rv
        block_stmt = sch.get(block)
        if len(block_stmt.reads) != 1 or len(block_stmt.writes) != 1:
            return False
        read, written = (
            distinct_region_iter_vars(block_stmt, regions[0])
            for regions in (block_stmt.reads, block_stmt.writes)
        )
        if not read or not written or read[-1] == written[-1]:
            return False
        loops = {n: i.loop_rv for n, i in enumerate(infos[0].iters)}
        if len(read) != len(loops):
            return False
        rows, columns = loops.pop(read[-1]), loops.pop(written[-1])
        row_tile, row = sch.split(rows, [None, _TILE])
        column_tile, column = sch.split(columns, [None, _TILE])
        others = list(loops.values())
        sch.reorder(*others, row_tile, column_tile, row, column)
        bx = sch.fuse(*others, row_tile, column_tile)
        sch.bind(bx, "blockIdx.x")
        _bind_tile(sch, row, column)
        indices = [
            used_iter_vars(block_stmt, bounds.min)
            for bounds in block_stmt.reads[0].region
        ]
        tile = sch.cache_read(block, 0, "shared")
        sch.compute_at(tile, bx, preserve_unit_loops=True)
        dims = sch.get_loops(tile)[1:]
        outer, inner = (dims[indices.index([a])] for a in (written[-1], read[-1]))
        rest = [x for x in dims if x not in (outer, inner)]
        sch.reorder(*rest, outer, inner)
        _bind_tile(sch, outer, inner)
        return True


def _bind_tile(sch: Schedule, rows: LoopRV, columns: LoopRV) -> None:
    """Bind a tile to threads; adjacent threads take adjacent columns."""
    rest, ty = sch.split(rows, [None, _ROWS])
    sch.reorder(ty, columns, rest)
    sch.bind(ty, "threadIdx.y")
    sch.bind(columns, "threadIdx.x")
