"""Contraction: sums of products, as register tiles of fused multiply-adds.

Matrix products, batched or not, and convolutions are one shape of program: a sum over
reduce axes of ``a * b``, where the rows of the result come from one operand and its
columns, which lie side by side in memory, from the other. A tile of ``rows x columns``
accumulators stays in registers over the whole sum; the columns' operand is first copied
into a panel where every step of the sum reads consecutive vectors. That copy is also what
makes a convolution a matrix product: the panel holds the windows of its pixels.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM
TOMS 34(3), 2008.
"""

from relax_mlir.schedules.cpu.byte_contraction import ByteContractionLoops, has_bytes
from relax_mlir.schedules.cpu.contraction_loops import ContractionLoops
from relax_mlir.schedules.cpu.contraction_plan import Plan, plan_contraction
from relax_mlir.schedules.nest import Kernel
from relax_mlir.schedules.rule import PlannedRule

__all__ = ["Contraction"]


class Contraction(PlannedRule[Plan]):
    """Register tiles of multiply-adds over packed columns; f32, f64, integers in i32.

    Products of bytes are summed by four where the machine can.
    """

    def plan(self, kernel: Kernel) -> Plan | None:
        """One contraction, and maps of its result."""
        plan = plan_contraction(kernel)
        is_taken = plan is not None and (plan.group == 1 or self._takes_bytes(plan))
        return plan if is_taken else None

    def write(self, plan: Plan) -> None:
        takes_bytes = self._takes_bytes(plan)
        loops = ByteContractionLoops if takes_bytes else ContractionLoops
        loops(plan, self.unit.bits).emit()

    def _takes_bytes(self, plan: Plan) -> bool:
        return self.unit.byte_dots and has_bytes(plan)
