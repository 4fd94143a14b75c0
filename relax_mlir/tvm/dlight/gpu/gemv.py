"""GEMV rule: matrix-vector multiply with a contiguous reduction axis."""

from __future__ import annotations

from relax_mlir.analysis.contraction import AxisRoles
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.tvm.dlight.blocks import (
    BlockInfo,
    is_broadcast_epilogue,
    loop_extent,
    normalize_prim_func,
)
from relax_mlir.tvm.dlight.contraction import contraction_operands
from relax_mlir.tvm.dlight.gpu.threads import thread_count
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import LoopRV, Schedule

__all__ = ["GEMV", "schedule_warp_reduction"]

_WARP = 32  # maximal number of lanes that reduce one row
_ROWS = 4  # rows per thread block
_VECTOR = 4  # contiguous elements per thread and step


class GEMV(GuardedRule):
    """Matrix-vector multiply: one operand is indexed by reduction axes only.

    The lanes of a warp reduce one row together; each takes contiguous elements of K.
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if not infos or len(infos) > 2 or set(infos[0].dom_kind()) != {"S", "R"}:
            return False
        info, *rest = infos
        operands = contraction_operands(sch.get(info.block_rv))
        if operands is None:
            return False
        matrix, vector = operands
        roles = AxisRoles.of(info.dom_kind(), matrix, vector)
        if roles.batch or roles.n or roles.others:
            return False
        ordered = [info.iters[n] for n in matrix]
        if ordered[-1].kind != "R":
            return False
        rows = sch.fuse(*(i.loop_rv for i in ordered if i.kind == "S"))
        epilogue = rest[0] if rest else None
        loops = [i.loop_rv for i in ordered if i.kind == "R"]
        sch.reorder(rows, *loops)
        return schedule_warp_reduction(
            sch, info, rows, sch.fuse(*loops), ordered[-1].dom, epilogue
        )


def schedule_warp_reduction(
    sch: Schedule,
    info: BlockInfo,
    rows: LoopRV,
    k: LoopRV,
    extent: int | PrimExpr,
    epilogue: BlockInfo | None,
    outer: LoopRV | None = None,
) -> bool:
    """Schedule a reduction with one warp per row; False if the epilogue cannot be fused.

    Args:
        rows: the loop over rows; a loop inside ``k`` is over the batch of rows that a
            warp reduces at once.
        k: the fused reduction loop inside ``rows``; the innermost axis has ``extent``
            elements.
        outer: a loop around both, over tiles of the batch (``blockIdx.y``).

    Raises:
        ScheduleError: a primitive does not apply to the loops.
    """
    block = info.block_rv
    if epilogue is not None and is_broadcast_epilogue(sch, block, epilogue.block_rv):
        return False
    vector = _VECTOR if isinstance(extent, int) and extent % _VECTOR == 0 else 1
    lanes = max(1, thread_count(extent, _WARP * vector) // vector)
    k_extent = loop_extent(sch, k)
    is_divisible = isinstance(k_extent, int) and k_extent % (lanes * vector) == 0
    _, ty = sch.split(rows, [None, _ROWS])
    _, tx, _ = sch.split(k, [None, lanes, vector])
    partial = sch.rfactor(tx, 0) if is_divisible else block
    *around, bx, ty, rest, tx, element = sch.get_loops(partial)[
        : 5 + (outer is not None)
    ]
    batch = sch.get_loops(partial)[len(around) + 5 :]
    if is_divisible:
        sch.reorder(bx, ty, tx, rest, element, *batch)
    else:
        sch.reorder(bx, ty, *batch, tx, rest, element)
    for loop, axis in ((bx, "blockIdx.x"), *((o, "blockIdx.y") for o in around)):
        sch.bind(loop, axis)
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    sch.unroll(element)
    if is_divisible:
        sch.set_scope(partial, 0, "local")
        sch.decompose_reduction(partial, rest)
        sch.reverse_compute_at(block, ty, preserve_unit_loops=True)
        sch.bind(sch.get_loops(block)[len(around) + 2], "threadIdx.x")
    if epilogue is not None:
        sch.set_scope(block, 0, "local")
        sch.reverse_compute_at(epilogue.block_rv, ty)
    return True
