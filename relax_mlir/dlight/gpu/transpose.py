"""Transpose: tiles that pass through shared memory."""

from __future__ import annotations

from relax_mlir.dlight.blocks import axes_of, normalize_prim_func, plain_axes
from relax_mlir.dlight.inlining import try_inline
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import LoopRV, Schedule

__all__ = ["Transpose"]

_TILE = 32  # rows and columns
_ROWS = 8  # of threads


class Transpose(GuardedRule):
    """One block that reads along one axis and writes along another.

    A block of threads reads a tile with neighbours side by side, and writes it so as well.
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
        statement = sch.get(block)
        if len(statement.reads) != 1 or len(statement.writes) != 1:
            return False
        read, written = (
            plain_axes(statement, regions[0])
            for regions in (statement.reads, statement.writes)
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
        indices = [axes_of(statement, run.min) for run in statement.reads[0].region]
        tile = sch.cache_read(block, 0, "shared")
        sch.compute_at(tile, bx, preserve_unit_loops=True)
        dims = sch.get_loops(tile)[1:]
        outer, inner = (dims[indices.index([a])] for a in (written[-1], read[-1]))
        rest = [x for x in dims if x not in (outer, inner)]
        sch.reorder(*rest, outer, inner)
        _bind_tile(sch, outer, inner)
        return True


def _bind_tile(sch: Schedule, rows: LoopRV, columns: LoopRV) -> None:
    """Let threads run the points of a tile, neighbours along its columns."""
    rest, ty = sch.split(rows, [None, _ROWS])
    sch.reorder(ty, columns, rest)
    sch.bind(ty, "threadIdx.y")
    sch.bind(columns, "threadIdx.x")
