"""GeneralReduction: sums over the same rows one after the other, then what uses them."""

from __future__ import annotations

from relax_mlir.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.dlight.gpu.threads import max_threads_per_block, threads_for
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["GeneralReduction", "share_rows"]

_THREADS = 256  # of a block


class GeneralReduction(GuardedRule):
    """Softmax, layer normalization and the like: a block of threads for each row."""

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        return infos is not None and share_rows(sch, infos, target)


def share_rows(sch: Schedule, infos: list[BlockInfo], target: Target) -> bool:
    """Let the threads of a block share the sums of a row; whether the blocks are such.

    They are sums over the last axes of the same domain, each of which has a result for
    every row, and a last block that computes every point of the rows, or is a sum too.

    Raises:
        ScheduleError: they depend on each other in another way.
    """
    if len(infos) < 2 or not infos[0].is_reduction():
        return False
    kinds = infos[0].dom_kind()
    rows = len(kinds) - len(kinds.lstrip("S"))
    *sums, last = infos
    if any(i.dom_kind() != kinds for i in sums) or not last.is_injective():
        return False
    is_plain = set(kinds[rows:]) == {"R"} and rows > 0
    if not is_plain or len(last.iters) <= rows:
        return False
    threads = threads_for(
        last.iters[-1].dom, min(_THREADS, max_threads_per_block(target))
    )
    loops = sch.get_loops(last.block_rv)
    bx, points = sch.fuse(*loops[:rows]), sch.fuse(*loops[rows:])
    rest, tx = sch.split(points, [None, threads])
    sch.reorder(tx, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    for info in reversed(sums):
        block = info.block_rv
        for number, _ in enumerate(sch.get(block).writes):
            sch.set_scope(block, number, "shared")
        sch.compute_at(block, bx, preserve_unit_loops=True)
        terms = sch.fuse(*sch.get_loops(block)[-(len(kinds) - rows) :])
        rest, tx = sch.split(terms, [None, threads])
        sch.reorder(tx, rest)
        sch.bind(tx, "threadIdx.x")
    return True
