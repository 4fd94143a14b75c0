"""Asynchronous pipelines in shared memory: mbarriers, and the stage and phase of each side.

Source: NVIDIA, PTX ISA, "mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import IndexLike, add, constant, index, op, subtract
from relax_mlir.schedules.gpu.launch import SHARED_SPACE

__all__ = ["Mbarriers", "PipelineState"]

_TICKS = 10_000_000  # suspend-time hint of a wait, in ns


@dataclass(frozen=True)
class Mbarriers:
    """An array of mbarrier objects in shared memory."""

    group: ir.Value

    @staticmethod
    def create(count: int) -> Mbarriers:
        """Allocates mbarriers, at the top of a launch."""
        text = f"<memorySpace = {SHARED_SPACE}, num_barriers = {count}>"
        type_ = ir.Type.parse(f"!nvgpu.mbarrier.group{text}")
        return Mbarriers(op("nvgpu.mbarrier.create", type_))

    def init(self, number: int, arrivals: int) -> None:
        """Initializes one with the number of arrivals that complete a phase."""
        op("nvgpu.mbarrier.init", None, self.group, index(arrivals), index(number))

    def arrive_expect_tx(self, number: IndexLike, bytes_: int) -> None:
        """Arrives, and adds bytes of TMA copies to the transaction count of the phase."""
        operands = self.group, index(bytes_), index(number)
        op("nvgpu.mbarrier.arrive.expect_tx", None, *operands)

    def arrive(self, number: IndexLike) -> None:
        """Arrives, without waiting."""
        token = ir.Type.parse("!nvgpu.mbarrier.token")
        op("nvgpu.mbarrier.arrive", token, self.group, index(number))

    def wait(self, number: IndexLike, parity: ir.Value) -> None:
        """Waits until the latest phase of a parity has completed.

        Args:
            parity: ``i1``: 0 for the first phase. The phase before it, of parity 1, counts as
                completed.
        """
        operands = self.group, parity, index(_TICKS), index(number)
        op("nvgpu.mbarrier.try_wait.parity", None, *operands)


@dataclass(frozen=True)
class PipelineState:
    """The position of a producer or consumer in a circular buffer of stages.

    Attributes:
        stage: index of the stage; parity: of the number of completed rounds, as ``i1``.
    """

    stage: ir.Value
    parity: ir.Value

    @staticmethod
    def initial() -> PipelineState:
        """The state at the first stage of the first round."""
        i1 = ir.IntegerType.get_signless(1)
        return PipelineState(index(0), constant(0, i1))

    @property
    def loop_values(self) -> list[ir.Value]:
        """The loop-carried values."""
        return [self.stage, self.parity]

    def next_stage(self, stages: int) -> PipelineState:
        """The state at the next stage; the parity flips on wrap-around."""
        i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        stage = index(add(self.stage, 1))
        equal = ir.IntegerAttr.get(i64, _EQUAL)
        wraps = op("arith.cmpi", i1, stage, index(stages), predicate=equal)
        chosen = op("arith.select", ir.IndexType.get(), wraps, index(0), stage)
        return PipelineState(chosen, op("arith.xori", i1, self.parity, wraps))

    def previous_stage(self, stages: int) -> PipelineState:
        """The state at the previous stage, with the same parity."""
        i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        equal = ir.IntegerAttr.get(i64, _EQUAL)
        is_first = op("arith.cmpi", i1, self.stage, index(0), predicate=equal)
        before = index(subtract(self.stage, 1))
        last = index(stages - 1)
        return PipelineState(
            op("arith.select", ir.IndexType.get(), is_first, last, before), self.parity
        )

    def previous_parity(self) -> ir.Value:
        """The parity of the previous phase."""
        i1 = self.parity.type
        return op("arith.xori", i1, self.parity, constant(1, i1))


_EQUAL = 0  # predicate of arith.cmpi
