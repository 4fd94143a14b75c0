"""RMSNorm: rows divided by the root of the mean of their squares."""

from __future__ import annotations

from relax_mlir.dlight.blocks import BlockInfo, normalize_prim_func
from relax_mlir.dlight.gpu.general_reduction import share_rows
from relax_mlir.dlight.inlining import try_inline_contiguous_spatial
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.objects import prim
from relax_mlir.objects.stmt import BufferStore
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import Schedule

__all__ = ["RMSNorm"]


class RMSNorm(GuardedRule):
    """A sum of squares over rows, and one block that uses it for their points."""

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        infos = try_inline_contiguous_spatial(sch, normalize_prim_func(sch))
        if infos is None or len(infos) != 2 or not _sums_squares(sch, infos[0]):
            return False
        return share_rows(sch, infos, target)


def _sums_squares(sch: Schedule, info: BlockInfo) -> bool:
    """Whether a block adds a number times itself."""
    body = sch.get(info.block_rv).body
    if not isinstance(body, BufferStore) or not isinstance(body.value, prim.Add):
        return False
    factors = [s for s in (body.value.a, body.value.b) if isinstance(s, prim.Mul)]
    return len(factors) == 1 and prim.structurally_equal(factors[0].a, factors[0].b)
