"""Base class of GPU schedule rules, and the device facts that rules read."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from relax_mlir.schedules.rule import ScheduleRule

__all__ = ["LIBRARY_POLICIES", "Gpu", "GpuRule"]

LIBRARY_POLICIES = ("never", "auto", "always")

P = TypeVar("P")


@dataclass(frozen=True)
class Gpu:
    """Properties of the target GPU, and compile options that rules depend on.

    Attributes:
        sm: compute capability, such as 90.
        tf32: whether f32 operands of matmuls may be rounded to TF32 (11 significant bits).
        library: whether cuBLASLt and cuDNN compute matmuls and convolutions: ``never``,
            ``auto`` (where they are expected to be faster) or ``always`` (wherever they can).
    """

    sm: int = 80
    tf32: bool = False
    library: str = "never"


@dataclass(frozen=True)
class GpuRule(ScheduleRule[P]):
    """Schedule rule that lowers one class of kernels to launches in ``schedule-apply-gpu``.

    Attributes:
        gpu: the target device.
    """

    gpu: Gpu

    @abstractmethod
    def write(self, plan: P) -> None:
        """Emits the launches at the insertion point, in execution order.

        Buffers that launches share and that are no arguments are ``memref.alloc`` operations
        next to them.
        """
