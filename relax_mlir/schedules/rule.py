"""What a schedule rule is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from relax_mlir.schedules.nest import Kernel

__all__ = ["BYTES_A_DOT", "PlannedRule", "Rule", "VectorUnit"]

BYTES_A_DOT = 4  # products that are summed at once


@dataclass(frozen=True)
class VectorUnit:
    """What a machine's vectors are.

    Attributes:
        bits: their width.
        byte_dots: whether one instruction sums four products of bytes a lane, as
            AVX-512 VNNI and AVX-VNNI do.
    """

    bits: int = 256
    byte_dots: bool = False


class Rule(Protocol):
    """How kernels of one class become loops; its class is called with a vector unit.

    ``schedule-apply`` asks its rules in an order, most specific first, and the first that
    matches writes the loops. The statements of the kernel are erased afterwards.
    """

    def __init__(self, unit: VectorUnit) -> None:
        """A rule for machines with such vectors."""

    def matches(self, kernel: Kernel) -> bool:
        """Whether the rule takes a kernel; changes nothing."""
        ...

    def emit(self, kernel: Kernel) -> None:
        """Write the loops of a kernel that it takes, at the insertion point.

        It calls :func:`relax_mlir.schedules.emit.parallel_loop` exactly once, outside of
        other loops: its iterations, the tiles, are what threads share.

        Raises:
            PassError: from ``schedule-apply``, if it made another number of such loops.
        """
        ...


P = TypeVar("P")


@dataclass(frozen=True)
class PlannedRule(ABC, Generic[P]):
    """A rule that takes the kernels that it has a plan for.

    Attributes:
        unit: the machine's vectors.
    """

    unit: VectorUnit

    @abstractmethod
    def plan(self, kernel: Kernel) -> P | None:
        """How the rule writes a kernel; None if it does not take it. Changes nothing."""

    @abstractmethod
    def write(self, plan: P) -> None:
        """Write the loops at the insertion point, as :meth:`Rule.emit` says."""

    def matches(self, kernel: Kernel) -> bool:
        """Whether there is a plan."""
        return self.plan(kernel) is not None

    def emit(self, kernel: Kernel) -> None:
        """Write the loops as planned."""
        plan = self.plan(kernel)
        if plan is None:
            name = kernel.function.name.value
            raise ValueError(f"`{type(self).__name__}` does not take `{name}`")
        self.write(plan)
