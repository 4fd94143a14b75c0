"""Base classes of schedule rules, and the vector features of a CPU that they query."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.kernel_view import Kernel, Statement

__all__ = [
    "CpuRule",
    "NotApplicable",
    "ScheduleRule",
    "VectorUnit",
    "check_one_output",
    "check_statements",
]


@dataclass(frozen=True)
class VectorUnit:
    """Vector features of a CPU.

    Attributes:
        bits: width of a vector register.
        has_int8_dot: whether there is a dot-product instruction of 4 bytes per lane, as
            in AVX-512 VNNI and AVX-VNNI.
        has_bf16_dot: whether there is one of 2 bf16 per lane that outruns f32 FMAs.
        has_amx: whether there are AMX tiles for bytes and bf16.
    """

    bits: int = 256
    has_int8_dot: bool = False
    has_bf16_dot: bool = False
    has_amx: bool = False

    def dot_vnni_factor(
        self, accumulator: ir.Type, *operands: tuple[ir.Type, str | None]
    ) -> int:
        """VNNI factor of the dot-product instruction for a GEMM.

        Args:
            accumulator: element type of the accumulator.
            operands: element type of each operand and the operation that extends it.

        Returns:
            Products that the instruction adds per lane; 1 without such an instruction.
        """
        factor = _vnni_factor(accumulator, operands)
        return factor if {4: self.has_int8_dot, 2: self.has_bf16_dot}.get(factor) else 1

    def amx_vnni_factor(
        self, accumulator: ir.Type, *operands: tuple[ir.Type, str | None]
    ) -> int:
        """VNNI factor of the AMX tiles for a GEMM; 1 without AMX."""
        return _vnni_factor(accumulator, operands) if self.has_amx else 1

    def rate(self, accumulator: ir.Type, *operands: tuple[ir.Type, str | None]) -> int:
        """Peak multiply-add throughput of a GEMM, relative to f32."""
        factor = self.amx_vnni_factor(accumulator, *operands)
        return (
            8 * factor if factor > 1 else self.dot_vnni_factor(accumulator, *operands)
        )


def _vnni_factor(
    accumulator: ir.Type, operands: Sequence[tuple[ir.Type, str | None]]
) -> int:
    """Operand elements per 32-bit accumulator; 1 for unsupported types."""
    types = {(str(element), extend) for element, extend in operands}
    is_i32 = str(accumulator) == "i32"
    if is_i32 and types <= {("i8", "arith.extsi"), ("i8", "arith.extui")}:
        return 4
    return 2 if str(accumulator) == "f32" and types == {("bf16", "arith.extf")} else 1


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
