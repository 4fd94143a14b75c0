"""Base classes of schedule rules."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.kernel_view import Kernel, Statement
from relax_mlir.schedules.target_features import VectorUnit

__all__ = [
    "CpuRule",
    "NotApplicable",
    "ScheduleRule",
    "check_one_output",
    "check_statements",
]


class NotApplicable(Exception):  # noqa: N818  no error: the next rule is tried
    """A schedule rule does not apply to a kernel.

    Args:
        reason: a clause about the kernel, such as "it writes two buffers".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def check_statements(kernel: Kernel) -> None:
    """Check that a kernel consists of linalg statements.

    Raises:
        NotApplicable: it has no statements, or other loops.
    """
    if kernel.has_loops:
        raise NotApplicable("it has loops that are not linalg statements")
    if not kernel.statements:
        raise NotApplicable("it has no statements")


def check_one_output(statement: Statement) -> None:
    """Check that a statement writes one buffer.

    Raises:
        NotApplicable: it writes several.
    """
    if len(statement.outputs) != 1:
        raise NotApplicable(f"it writes {len(statement.outputs)} buffers at once")


P = TypeVar("P")


class ScheduleRule(ABC, Generic[P]):
    """A schedule rule: matches kernels of one class and emits their loops for a target.

    Rules are tried in a fixed order, the most specific first. The first one that
    matches emits the loops; the kernel's statements are erased afterwards.

    A tunable rule lists its choices in :meth:`configurations` and has a field
    ``configuration``: the one to emit, or None for the default.
    """

    @abstractmethod
    def plan(self, kernel: Kernel) -> P:
        """Match a kernel, without changes to the IR.

        Raises:
            NotApplicable: the rule does not apply to the kernel.
        """

    def configurations(self, plan: P) -> Sequence[Configuration]:
        """Configurations of a matched kernel, the default first.

        This is the search space of the tuner, in order of expected speed.
        """
        return ()

    @abstractmethod
    def write(self, plan: P) -> None:
        """Emit the kernel at the insertion point."""


@dataclass(frozen=True)
class CpuRule(ScheduleRule[P]):
    """A schedule rule for CPUs, applied by ``schedule-apply``.

    Attributes:
        unit: vector features of the CPU.
    """

    unit: VectorUnit

    @abstractmethod
    def write(self, plan: P) -> None:
        """Emit the loops at the insertion point.

        Calls :func:`relax_mlir.schedules.builder.parallel_loop` exactly once, as the
        outermost loop: its iterations, the tiles, are distributed over threads.

        The output may alias an input whose elements are only read to compute the same
        element (``tir-mark-in-place``). So each output element is stored once, after all
        loads that it depends on.

        Raises:
            PassError: from ``schedule-apply``, for any other number of parallel loops.
        """
