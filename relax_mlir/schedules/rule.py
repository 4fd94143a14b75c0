"""What a schedule rule is."""

from typing import Protocol

from relax_mlir.schedules.nest import Kernel

__all__ = ["Rule"]


class Rule(Protocol):
    """How kernels of one class become loops; its class is called with ``vector_bits``.

    ``schedule-apply`` asks its rules in an order, most specific first, and the first that
    matches writes the loops. The statements of the kernel are erased afterwards.
    """

    def __init__(self, vector_bits: int) -> None:
        """A rule for machines whose vectors are so wide."""

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
