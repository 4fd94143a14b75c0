"""Base class of GPU schedule rules."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TypeVar

from relax_mlir.schedules.rule import ScheduleRule
from relax_mlir.schedules.target_features import Gpu

__all__ = ["GpuRule"]

P = TypeVar("P")


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

        Buffers that launches share and that are not arguments are ``memref.alloc`` operations
        next to them.
        """
