"""Base class of passes that depend on the CPU's vector features."""

from dataclasses import dataclass

from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.rule import VectorUnit

__all__ = ["CpuFeaturesPass"]


@dataclass(frozen=True)
class CpuFeaturesPass(Pass):
    """Base class of passes with the CPU's vector features as options.

    Args:
        vector_bits, int8_dot, bf16_dot, amx: of the machine; see :class:`VectorUnit`.
    """

    vector_bits: int = 256
    int8_dot: bool = False
    bf16_dot: bool = False
    amx: bool = False

    @property
    def unit(self) -> VectorUnit:
        """What the options say."""
        return VectorUnit(self.vector_bits, self.int8_dot, self.bf16_dot, self.amx)
