"""What a schedule rule for a GPU is."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from relax_mlir.schedules.rule import AnyRule

__all__ = ["LIBRARY_POLICIES", "Gpu", "GpuRule"]

LIBRARY_POLICIES = ("never", "auto", "always")

P = TypeVar("P")


@dataclass(frozen=True)
class Gpu:
    """What rules ask of a GPU.

    Attributes:
        sm: its compute capability, such as 90.
        tf32: whether factors in f32 may be rounded to 11 bits.
        library: whether NVIDIA's libraries compute products and convolutions: ``never``,
            ``auto`` (where they are expected to be faster) or ``always`` (where they can).
    """

    sm: int = 80
    tf32: bool = False
    library: str = "never"


@dataclass(frozen=True)
class GpuRule(AnyRule[P]):
    """How kernels of one class become launches, by ``schedule-apply-gpu``.

    Attributes:
        gpu: the machine.
    """

    gpu: Gpu

    @abstractmethod
    def write(self, plan: P) -> None:
        """Write the launches at the insertion point, in the order in which they run.

        What they share and is no argument is a ``memref.alloc`` beside them.
        """
