"""What a schedule rule is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlir import ir

from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.nest import Kernel, Statement

__all__ = [
    "AnyRule",
    "Refusal",
    "Rule",
    "VectorUnit",
    "check_one_output",
    "check_statements",
]


@dataclass(frozen=True)
class VectorUnit:
    """What a machine's vectors are.

    Attributes:
        bits: their width.
        byte_dots: whether one instruction sums four products of bytes a lane, as
            AVX-512 VNNI and AVX-VNNI do.
        bf16_dots: whether one sums two products of bf16, and gains by it.
        tiles: whether one multiplies matrices of bytes or of bf16, as AMX does.
    """

    bits: int = 256
    byte_dots: bool = False
    bf16_dots: bool = False
    tiles: bool = False

    def terms_of_dot(self, total: ir.Type, *factors: tuple[ir.Type, str | None]) -> int:
        """How many products of two factors an instruction sums in a lane, 1 or more.

        Args:
            total: the type of the sum.
            factors: their types, and the operations that widen them.
        """
        terms = _terms_of_word(total, factors)
        return terms if {4: self.byte_dots, 2: self.bf16_dots}.get(terms) else 1

    def terms_of_tile(
        self, total: ir.Type, *factors: tuple[ir.Type, str | None]
    ) -> int:
        """How many of two factors make a word of a tile's row; 1 without such tiles."""
        return _terms_of_word(total, factors) if self.tiles else 1

    def rate(self, total: ir.Type, *factors: tuple[ir.Type, str | None]) -> int:
        """How often as many of two factors it multiplies as of f32, in the same time."""
        terms = self.terms_of_tile(total, *factors)
        return 8 * terms if terms > 1 else self.terms_of_dot(total, *factors)


def _terms_of_word(
    total: ir.Type, factors: Sequence[tuple[ir.Type, str | None]]
) -> int:
    """How many of two factors fill the 32 bits of a sum; 1 if they are none of a kind."""
    given = {(str(element), extend) for element, extend in factors}
    if str(total) == "i32" and given <= {("i8", "arith.extsi"), ("i8", "arith.extui")}:
        return 4
    return 2 if str(total) == "f32" and given == {("bf16", "arith.extf")} else 1


class Refusal(Exception):  # noqa: N818  nothing is wrong: the next rule is asked
    """A rule does not take a kernel.

    Args:
        reason: a clause about the kernel, such as "it writes two buffers".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def check_statements(kernel: Kernel) -> None:
    """Refuse a kernel that is not all linalg statements.

    Raises:
        Refusal: it has none, or loops beside them.
    """
    if kernel.has_loops:
        raise Refusal("it has loops that are no linalg statements")
    if not kernel.statements:
        raise Refusal("it has no statements")


def check_one_output(statement: Statement) -> None:
    """Refuse a statement that writes several buffers.

    Raises:
        Refusal: it does.
    """
    if len(statement.outputs) != 1:
        raise Refusal(f"it writes {len(statement.outputs)} buffers at once")


P = TypeVar("P")


class AnyRule(ABC, Generic[P]):
    """How kernels of one class are written for a kind of machine.

    Rules are asked for a plan in an order, most specific first, and the first that has
    one writes the kernel. Its statements are erased afterwards.

    A rule that can write a kernel in several ways lists them as :meth:`configurations`,
    and has a field ``configuration``: the one to write, or None for the first.
    """

    @abstractmethod
    def plan(self, kernel: Kernel) -> P:
        """How the rule writes a kernel. Changes nothing.

        Raises:
            Refusal: it does not take the kernel.
        """

    def configurations(self, plan: P) -> Sequence[Configuration]:
        """The ways in which it can write a kernel, its own choice first.

        The others are what tuning tries, the more promising ones first.
        """
        return ()

    @abstractmethod
    def write(self, plan: P) -> None:
        """Write the kernel at the insertion point."""


@dataclass(frozen=True)
class Rule(AnyRule[P]):
    """How kernels of one class become loops for a CPU, by ``schedule-apply``.

    Attributes:
        unit: the machine's vectors.
    """

    unit: VectorUnit

    @abstractmethod
    def write(self, plan: P) -> None:
        """Write the loops at the insertion point.

        It calls :func:`relax_mlir.schedules.emit.parallel_loop` exactly once, outside of
        other loops: its iterations, the tiles, are what threads share.

        The result may lie where an argument does that is read for the same element of it
        alone (``tir-mark-in-place``): each element of a result is written once, and what
        is read for it is read before.

        Raises:
            PassError: from ``schedule-apply``, if it made another number of such loops.
        """
