"""RMSNorm rule: root-mean-square normalization of rows."""

from __future__ import annotations

from relax_mlir.objects import prim
from relax_mlir.objects.stmt.statements import BufferStore
from relax_mlir.tvm.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.tvm.dlight.gpu.general_reduction import schedule_row_reductions
from relax_mlir.tvm.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import Schedule

__all__ = ["RMSNorm"]


class RMSNorm(GuardedRule):
    """A row-wise sum of squares, and one elementwise block that uses it."""

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if infos is None or len(infos) != 2 or not _is_sum_of_squares(sch, infos[0]):
            return False
        return schedule_row_reductions(sch, infos, target)


def _is_sum_of_squares(sch: Schedule, info: BlockInfo) -> bool:
    """Whether the combiner of a block is ``acc + x * x``."""
    body = sch.get(info.block_rv).body
    if not isinstance(body, BufferStore) or not isinstance(body.value, prim.Add):
        return False
    squares = [s for s in (body.value.a, body.value.b) if isinstance(s, prim.Mul)]
    return len(squares) == 1 and prim.structurally_equal(squares[0].a, squares[0].b)
