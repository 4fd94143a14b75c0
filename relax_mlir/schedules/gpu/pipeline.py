"""Slices of shared memory that some threads fill and others empty, in turn.

Source: NVIDIA, PTX ISA, "mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import Extent, add, constant, index, op, subtract
from relax_mlir.schedules.gpu.launch import SHARED

__all__ = ["Barriers", "Turn"]

_TICKS = 10_000_000  # for which a thread sleeps at most before it looks again


@dataclass(frozen=True)
class Barriers:
    """Barriers in shared memory, at which threads and copies arrive and threads wait."""

    group: ir.Value

    @staticmethod
    def create(count: int) -> Barriers:
        """Some, at the top of a launch."""
        text = f"<memorySpace = {SHARED}, num_barriers = {count}>"
        type_ = ir.Type.parse(f"!nvgpu.mbarrier.group{text}")
        return Barriers(op("nvgpu.mbarrier.create", type_))

    def start(self, number: int, arrivals: int) -> None:
        """Let a phase of one end after so many arrivals."""
        op("nvgpu.mbarrier.init", None, self.group, index(arrivals), index(number))

    def expect(self, number: Extent, bytes_: int) -> None:
        """Arrive, and let the phase not end before copies have brought so many bytes."""
        operands = self.group, index(bytes_), index(number)
        op("nvgpu.mbarrier.arrive.expect_tx", None, *operands)

    def arrive(self, number: Extent) -> None:
        """Arrive."""
        token = ir.Type.parse("!nvgpu.mbarrier.token")
        op("nvgpu.mbarrier.arrive", token, self.group, index(number))

    def wait(self, number: Extent, parity: ir.Value) -> None:
        """Wait until the last phase of a parity has ended; there is one before the first.

        Args:
            parity: of ``i1``: 0 for the first phase.
        """
        operands = self.group, parity, index(_TICKS), index(number)
        op("nvgpu.mbarrier.try_wait.parity", None, *operands)


@dataclass(frozen=True)
class Turn:
    """Which of the slices it is the turn of.

    Attributes:
        stage: its number; parity: of how often it was its turn before, as ``i1``.
    """

    stage: ir.Value
    parity: ir.Value

    @staticmethod
    def first() -> Turn:
        """Of the first slice."""
        i1 = ir.IntegerType.get_signless(1)
        return Turn(index(0), constant(0, i1))

    @property
    def values(self) -> list[ir.Value]:
        """As loops carry it."""
        return [self.stage, self.parity]

    def following(self, stages: int) -> Turn:
        """Of the next of so many slices."""
        i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        stage = index(add(self.stage, 1))
        equal = ir.IntegerAttr.get(i64, _EQUAL)
        wraps = op("arith.cmpi", i1, stage, index(stages), predicate=equal)
        chosen = op("arith.select", ir.IndexType.get(), wraps, index(0), stage)
        return Turn(chosen, op("arith.xori", i1, self.parity, wraps))

    def preceding(self, stages: int) -> Turn:
        """Of the slice before, of so many; its parity is not told."""
        i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
        equal = ir.IntegerAttr.get(i64, _EQUAL)
        is_first = op("arith.cmpi", i1, self.stage, index(0), predicate=equal)
        before = index(subtract(self.stage, 1))
        last = index(stages - 1)
        return Turn(
            op("arith.select", ir.IndexType.get(), is_first, last, before), self.parity
        )

    def other_parity(self) -> ir.Value:
        """That of the phase before."""
        i1 = self.parity.type
        return op("arith.xori", i1, self.parity, constant(1, i1))


_EQUAL = 0  # of arith.cmpi's predicates
