"""GeneralReduction rule: row reductions in sequence and a final elementwise block."""

from __future__ import annotations

from relax_mlir.tvm.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.tvm.dlight.gpu.threads import max_threads_per_block, thread_count
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["GeneralReduction", "schedule_row_reductions"]

_THREADS = 256  # per thread block


class GeneralReduction(GuardedRule):
    """Softmax, layer normalization and similar: one thread block per row."""

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        return infos is not None and schedule_row_reductions(sch, infos, target)


def schedule_row_reductions(
    sch: Schedule, infos: list[BlockInfo], target: Target
) -> bool:
    """Schedule row reductions with one thread block per row; returns whether they match.

    All blocks but the last reduce the trailing axes of the same domain to one value per
    row; the last is elementwise over the rows.

    Raises:
        ScheduleError: the dependences between blocks do not allow it.
    """
    if len(infos) < 2 or not infos[0].is_reduction():
        return False
    kinds = infos[0].dom_kind()
    row_rank = len(kinds) - len(kinds.lstrip("S"))
    *reductions, last = infos
    if any(i.dom_kind() != kinds for i in reductions) or not last.is_injective():
        return False
    is_row_reduction = set(kinds[row_rank:]) == {"R"} and row_rank > 0
    if not is_row_reduction or len(last.iters) <= row_rank:
        return False
    threads = thread_count(
        last.iters[-1].dom, min(_THREADS, max_threads_per_block(target))
    )
    loops = sch.get_loops(last.block_rv)
    bx, columns = sch.fuse(*loops[:row_rank]), sch.fuse(*loops[row_rank:])
    rest, tx = sch.split(columns, [None, threads])
    sch.reorder(tx, rest)
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    for info in reversed(reductions):
        block = info.block_rv
        for number, _ in enumerate(sch.get(block).writes):
            sch.set_scope(block, number, "shared")
        sch.compute_at(block, bx, preserve_unit_loops=True)
        k = sch.fuse(*sch.get_loops(block)[-(len(kinds) - row_rank) :])
        rest, tx = sch.split(k, [None, threads])
        sch.reorder(tx, rest)
        sch.bind(tx, "threadIdx.x")
    return True
