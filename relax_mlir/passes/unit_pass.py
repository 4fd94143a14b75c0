"""Passes whose work depends on what the machine's vectors do."""

from dataclasses import dataclass

from relax_mlir.rewriting import Pass
from relax_mlir.schedules.rule import VectorUnit

__all__ = ["UnitPass"]


@dataclass(frozen=True)
class UnitPass(Pass):
    """Base of passes that are told of a machine's vectors.

    Args:
        vector_bits, byte_dots, bf16_dots, tiles: of the machine; see :class:`VectorUnit`.
    """

    vector_bits: int = 256
    byte_dots: bool = False
    bf16_dots: bool = False
    tiles: bool = False

    @property
    def unit(self) -> VectorUnit:
        """What the options say."""
        return VectorUnit(self.vector_bits, self.byte_dots, self.bf16_dots, self.tiles)
