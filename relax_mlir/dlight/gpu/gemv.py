"""GEMV: products of a matrix and a vector whose terms lie side by side."""

from __future__ import annotations

from relax_mlir.dlight.blocks import (
    BlockInfo,
    extent_of,
    is_broadcast_epilogue,
    normalize_prim_func,
)
from relax_mlir.dlight.gpu.threads import threads_for
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.products import factors
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import LoopRV, Schedule

__all__ = ["GEMV", "share_terms"]

_WARP = 32  # threads that share a sum, at most
_ROWS = 4  # sums of a block of threads
_TERMS = 4  # that a thread takes at once


class GEMV(GuardedRule):
    """A sum of products of which one factor knows no spatial axis.

    The threads of a warp share a sum; each takes some terms that lie side by side.
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or set(infos[0].dom_kind()) != {"S", "R"}:
            return False
        info, *rest = infos
        found = factors(sch.get(info.block_rv))
        if found is None:
            return False
        matrix, vector = found
        reduced = {n for n, i in enumerate(info.iters) if i.kind == "R"}
        if set(vector) != reduced or len(matrix) != len(info.iters):
            return False
        ordered = [info.iters[n] for n in matrix]
        if ordered[-1].kind != "R":
            return False
        sums = sch.fuse(*(i.loop_rv for i in ordered if i.kind == "S"))
        epilogue = rest[0] if rest else None
        loops = [i.loop_rv for i in ordered if i.kind == "R"]
        sch.reorder(sums, *loops)
        return share_terms(sch, info, sums, sch.fuse(*loops), ordered[-1].dom, epilogue)


def share_terms(
    sch: Schedule,
    info: BlockInfo,
    sums: LoopRV,
    terms: LoopRV,
    extent: int | PrimExpr,
    epilogue: BlockInfo | None,
    outer: LoopRV | None = None,
) -> bool:
    """Let warps share sums; whether what comes behind can stay with them.

    Args:
        sums: the loop over them; terms: the loop in it, whose last axis is ``extent``
            long. A loop in both is over sums that a warp computes at once.
        outer: a loop around both, over what is far apart.

    Raises:
        ScheduleError: the loops do not allow it.
    """
    block = info.block_rv
    if epilogue is not None and is_broadcast_epilogue(sch, block, epilogue.block_rv):
        return False
    count = _TERMS if isinstance(extent, int) and extent % _TERMS == 0 else 1
    lanes = max(1, threads_for(extent, _WARP * count) // count)
    length = extent_of(sch, terms)
    is_whole = isinstance(length, int) and length % (lanes * count) == 0
    _, ty = sch.split(sums, [None, _ROWS])
    _, tx, _ = sch.split(terms, [None, lanes, count])
    changed = sch.rfactor(tx, 0) if is_whole else block
    *around, bx, ty, rest, tx, term = sch.get_loops(changed)[: 5 + (outer is not None)]
    batch = sch.get_loops(changed)[len(around) + 5 :]
    if is_whole:
        sch.reorder(bx, ty, tx, rest, term, *batch)
    else:
        sch.reorder(bx, ty, *batch, tx, rest, term)
    for loop, axis in ((bx, "blockIdx.x"), *((o, "blockIdx.y") for o in around)):
        sch.bind(loop, axis)
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    sch.unroll(term)
    if is_whole:
        sch.set_scope(changed, 0, "local")
        sch.decompose_reduction(changed, rest)
        sch.reverse_compute_at(block, ty, preserve_unit_loops=True)
        sch.bind(sch.get_loops(block)[len(around) + 2], "threadIdx.x")
    if epilogue is not None:
        sch.set_scope(block, 0, "local")
        sch.reverse_compute_at(epilogue.block_rv, ty)
    return True
