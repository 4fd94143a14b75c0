"""Attention: two products and what lies between them, a block of rows at a time.

Scores of a block of queries against all keys go to scratch memory that stays in cache,
where a softmax, or whatever follows on rows, works on them; the product with the values
reads them there. So scores never travel to memory, of which they would take the square of
a sequence's length.

Source: Rabe and Staats, Self-attention Does Not Need O(n^2) Memory, 2021, for blocks of
queries; all keys of a block are in cache here, so that nothing is rescaled.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

from mlir import ir

from relax_mlir.schedules.attention_plan import (
    AttentionPlan,
    plan_attention,
    with_late_factor,
)
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.cpu.amx_contraction import step_of_tiles
from relax_mlir.schedules.cpu.attention_loops import AttentionLoops
from relax_mlir.schedules.cpu.dot_contraction import terms_of_dot
from relax_mlir.schedules.nest import Kernel, point_count
from relax_mlir.schedules.rule import Refusal, Rule

__all__ = ["Attention"]

_MOST_PRODUCTS = 512  # of a score; computing more hides bringing it from memory


class Attention(Rule[AttentionPlan]):
    """Scores of a block of rows in cache, between two products; f32 and f64."""

    def plan(self, kernel: Kernel) -> AttentionPlan:
        """Two products, with statements of rows of the first between them."""
        plan = plan_attention(kernel)
        if plan.extents[-1] == 1:
            raise Refusal("it has one row, for which keys are not worth copying")
        plan = _each_head_apart(with_late_factor(plan))
        products = plan.scores, plan.values
        if any(terms_of_dot(p, self.unit) > 1 for p in products) or any(
            step_of_tiles(p, self.unit) for p in products
        ):
            raise Refusal("its products are of narrow numbers, which are faster apart")
        return plan

    def pays(self, plan: AttentionPlan, constants: AbstractSet[ir.Value]) -> bool:
        """Whether it is faster than a program for each product, and what is between.

        Args:
            constants: the buffers whose contents are known, which are packed ahead for
                products of their own.
        """
        scores, values = plan.scores.anchor.extents, plan.values.anchor.extents
        sizes = [scores[axis] for axis in plan.scores.k]
        columns = [values[axis] for axis in plan.values.n]
        if point_count(sizes) + point_count(columns) > _MOST_PRODUCTS:
            return False
        return constants.isdisjoint((plan.scores.b.buffer, plan.values.b.buffer))

    def write(self, plan: AttentionPlan) -> None:
        AttentionLoops(plan, self.unit.bits).emit()


def _each_head_apart(plan: AttentionPlan) -> AttentionPlan:
    """The plan where heads that share keys and values each have products of their own."""
    return replace(
        plan, scores=_rows_alone(plan.scores), values=_rows_alone(plan.values)
    )


def _rows_alone(product: Plan) -> Plan:
    *shared, rows = product.m
    return replace(product, outer=(*product.outer, *shared), m=(rows,))
