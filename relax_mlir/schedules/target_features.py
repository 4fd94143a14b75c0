"""Features of the target machine, and policies, as schedule rules and passes query them.

A pass has them as one field, and the fields of the classes here as options: the text of a
:class:`VectorUnit` or :class:`Gpu` is a part of a pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from mlir import ir

__all__ = [
    "Gpu",
    "LibraryPolicy",
    "VectorUnit",
    "WinogradPolicy",
]

LibraryPolicy = Literal["never", "auto", "always"]
WinogradPolicy = Literal["auto", "never"]


@dataclass(frozen=True)
class VectorUnit:
    """Vector features of a CPU.

    Attributes:
        vector_bits: width of a vector register; 0 for a GPU.
        int8_dot: whether there is a dot-product instruction of 4 bytes per lane, as in
            AVX-512 VNNI and AVX-VNNI.
        bf16_dot: whether there is one of 2 bf16 per lane that outruns f32 FMAs.
        amx: whether there are AMX tiles for bytes and bf16.
    """

    vector_bits: int = 256
    int8_dot: bool = False
    bf16_dot: bool = False
    amx: bool = False

    def __str__(self) -> str:
        """Pass options, such as ``vector-bits=512 amx=true``."""
        return _options(self)

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
        return factor if {4: self.int8_dot, 2: self.bf16_dot}.get(factor) else 1

    def amx_vnni_factor(
        self, accumulator: ir.Type, *operands: tuple[ir.Type, str | None]
    ) -> int:
        """VNNI factor of the AMX tiles for a GEMM; 1 without AMX."""
        return _vnni_factor(accumulator, operands) if self.amx else 1

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


@dataclass(frozen=True)
class Gpu:
    """Properties of an NVIDIA GPU, and compile options that its rules depend on.

    Attributes:
        sm: compute capability, such as 90; 0 for a CPU.
        tf32: whether f32 operands of matmuls may be rounded to TF32 (11 significant bits).
        library: whether cuBLASLt and cuDNN compute matmuls and convolutions: ``never``,
            ``auto`` (where they are expected to be faster) or ``always`` (wherever they can).
    """

    sm: int = 80
    tf32: bool = False
    library: LibraryPolicy = "never"

    def __str__(self) -> str:
        """Pass options, such as ``sm=90 tf32=true``."""
        return _options(self)


def _options(features: VectorUnit | Gpu) -> str:
    """The first field, and the others that differ from their defaults, as pass options."""
    first, *rest = fields(features)
    changed = [f for f in rest if getattr(features, f.name) != f.default]
    return " ".join(
        f"{f.name.replace('_', '-')}={getattr(features, f.name)!s}".lower()
        for f in (first, *changed)
    )
