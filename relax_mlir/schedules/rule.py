"""What a schedule rule is."""

from dataclasses import dataclass
from typing import Protocol

from relax_mlir.schedules.nest import Kernel

__all__ = ["BYTES_A_DOT", "Rule", "VectorUnit"]

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
