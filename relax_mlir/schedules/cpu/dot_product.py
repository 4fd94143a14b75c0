"""Dot-product instructions: VNNI for bytes, ``vdpbf16ps`` for bf16.

``vpdpbusd`` (AVX-512 VNNI, AVX-VNNI) adds four products of an unsigned and a signed byte to
each 32-bit lane; ``vdpbf16ps`` (AVX-512 BF16) adds two products of bf16 in f32. A step of
the K loop so covers four or two k: it broadcasts one 32-bit word of a row of the LHS, and
multiplies it by a vector of the RHS with as many k interleaved per column (VNNI layout).

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD and
VDPBF16PS.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.builder import broadcast, constant, op, vector_type
from relax_mlir.schedules.match_contraction import ContractionOperand

__all__ = ["Bf16DotProduct", "DotProduct", "Int8DotProduct", "interleave"]

_FLIP = (
    0x80  # flipping the top bit of a byte converts between signed and unsigned + 128
)


class DotProduct:
    """A dot-product instruction.

    Attributes:
        vnni_factor: products per lane; lanes: of an accumulator vector.
        element: element type of the operands.
        intrinsic: name of the LLVM intrinsic.
        is_flipped: whether the LHS is converted to the other signedness, which needs a
            correction of the accumulators by the column sums of the RHS.
    """

    vnni_factor: int
    intrinsic: str
    is_flipped = False

    def __init__(self, lanes: int, element: ir.Type) -> None:
        self.lanes, self.element = lanes, element

    def add(self, total: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        """Add the dot products of a broadcast LHS word and an RHS vector to ``total``."""
        return op(
            "llvm.call_intrinsic",
            total.type,
            total,
            *self._in_order(row, column),
            intrin=ir.StringAttr.get(f"{self.intrinsic}.{32 * self.lanes}"),
            op_bundle_sizes=ir.DenseI32ArrayAttr.get([]),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([3, 0]),
        )

    def row(self, word: ir.Value) -> ir.Value:
        """Broadcast a word of the LHS to all lanes, as an operand of the instruction."""
        return op("vector.bitcast", self._operand_type, broadcast(word, self.lanes))

    def one(self) -> ir.Value:
        """An LHS of ones, which computes column sums."""
        return broadcast(constant(1, self.element), self.vnni_factor * self.lanes)

    def corrected(self, total: ir.Value, column_sums: ir.Value) -> ir.Value:
        """Correct an accumulator for the flipped signedness of the LHS."""
        return total

    def _in_order(self, row: ir.Value, column: ir.Value) -> Sequence[ir.Value]:
        return row, column

    @property
    def _operand_type(self) -> ir.VectorType:
        return vector_type(self.vnni_factor * self.lanes, self.element)


class Bf16DotProduct(DotProduct):
    """Dot product of 2 bf16 per lane, accumulated in f32."""

    vnni_factor = 2
    intrinsic = "llvm.x86.avx512bf16.dpbf16ps"


class Int8DotProduct(DotProduct):
    """Dot product of 4 bytes per lane, accumulated in i32.

    The instruction takes one unsigned and one signed operand. For operands of the same
    signedness, the top bits of the LHS are flipped (+-128), and accumulators are corrected
    by 128 times the column sums of the RHS.
    """

    vnni_factor = 4
    intrinsic = "llvm.x86.avx512.vpdpbusd"

    def __init__(
        self, lanes: int, lhs: ContractionOperand, rhs: ContractionOperand
    ) -> None:
        super().__init__(lanes, lhs.element)
        is_lhs_signed, self._is_rhs_signed = (
            operand.extend == "arith.extsi" for operand in (lhs, rhs)
        )
        self.is_flipped = is_lhs_signed == self._is_rhs_signed

    def _in_order(self, row: ir.Value, column: ir.Value) -> Sequence[ir.Value]:
        """The operands, the unsigned one first."""
        return (row, column) if self._is_rhs_signed else (column, row)

    def row(self, word: ir.Value) -> ir.Value:
        """Broadcast four bytes of the LHS to all lanes, flipped if necessary."""
        if self.is_flipped:
            flips = int.from_bytes([_FLIP] * self.vnni_factor, "big") - 2**32
            spread, all_flips = (
                broadcast(v, self.lanes) for v in (word, constant(flips, word.type))
            )
            flipped = op("arith.xori", spread.type, spread, all_flips)
            return op("vector.bitcast", self._operand_type, flipped)
        return super().row(word)

    def corrected(self, total: ir.Value, column_sums: ir.Value) -> ir.Value:
        """Subtract or add 128 times the column sums."""
        i32 = ir.IntegerType.get_signless(32)
        shift = broadcast(constant(_FLIP.bit_length() - 1, i32), self.lanes)
        part = op("arith.shli", total.type, column_sums, shift)
        # Flipping added 128 to a signed LHS, and subtracted it from an unsigned one.
        name = "arith.subi" if self._is_rhs_signed else "arith.addi"
        return op(name, total.type, total, part)


def interleave(vectors: Sequence[ir.Value]) -> ir.Value:
    """Interleave a power of two of vectors: element 0 of each, element 1 of each, ..."""
    run = 1
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_interleave_pair(first, second, run) for first, second in pairs]
        run *= 2
    return vectors[0]


def _interleave_pair(first: ir.Value, second: ir.Value, run: int) -> ir.Value:
    """Interleave runs of elements of two vectors."""
    (count,) = first.type.shape
    order = [
        start + offset + position
        for start in range(0, count, run)
        for offset in (0, count)
        for position in range(run)
    ]
    type_ = vector_type(2 * count, first.type.element_type)
    mask = ir.DenseI64ArrayAttr.get(order)
    return op("vector.shuffle", type_, first, second, mask=mask)
