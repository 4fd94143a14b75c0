"""Instructions that sum several products of narrow numbers in every lane.

``vpdpbusd`` (AVX-512 VNNI, AVX-VNNI) adds to each of its 32-bit lanes four products of an
unsigned byte and a signed one; ``vdpbf16ps`` (AVX-512 BF16) adds two products of bf16, in
f32. So a step of a sum takes four of its terms, or two: neighbours of a row, as one word in
every lane, times a vector that holds as many steps of each column side by side.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD and
VDPBF16PS.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.schedules.contraction_plan import Factor
from relax_mlir.schedules.emit import broadcast, constant, op, vector_type

__all__ = ["ByteDot", "Dot", "HalfDot", "interleaved"]

_FLIP = 0x80  # the top bit: its change adds 128 to a byte, or takes it


class Dot:
    """An instruction.

    Attributes:
        terms: products that it sums in a lane; lanes: of a vector of sums.
        element: the type of a factor.
        intrinsic: LLVM's name for it.
        is_flipped: whether rows have bits changed, which sums must be corrected for.
    """

    terms: int
    intrinsic: str
    is_flipped = False

    def __init__(self, lanes: int, element: ir.Type) -> None:
        self.lanes, self.element = lanes, element

    def add(self, total: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        """``total`` and the products of factors of a row and of columns."""
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
        """The factors of a row in every lane, as the instruction takes them."""
        return op("vector.bitcast", self._factors, broadcast(word, self.lanes))

    def one(self) -> ir.Value:
        """A row that sums the columns up."""
        return broadcast(constant(1, self.element), self.terms * self.lanes)

    def corrected(self, total: ir.Value, by_column: ir.Value) -> ir.Value:
        """A sum without what the changed bits of its row make of its column's sum."""
        return total

    def _in_order(self, row: ir.Value, column: ir.Value) -> Sequence[ir.Value]:
        return row, column

    @property
    def _factors(self) -> ir.VectorType:
        return vector_type(self.terms * self.lanes, self.element)


class HalfDot(Dot):
    """Two products of bf16, summed in f32."""

    terms = 2
    intrinsic = "llvm.x86.avx512bf16.dpbf16ps"


class ByteDot(Dot):
    """Four products of bytes, summed in i32.

    Where both operands are signed, or neither is, the row's bytes have their top bit
    flipped, which adds or takes 128, and the sums start with what that makes of the
    columns.
    """

    terms = 4
    intrinsic = "llvm.x86.avx512.vpdpbusd"

    def __init__(self, lanes: int, rows_of: Factor, columns_of: Factor) -> None:
        super().__init__(lanes, rows_of.element)
        are_rows_signed, self._are_columns_signed = (
            factor.extend == "arith.extsi" for factor in (rows_of, columns_of)
        )
        self.is_flipped = are_rows_signed == self._are_columns_signed

    def _in_order(self, row: ir.Value, column: ir.Value) -> Sequence[ir.Value]:
        """The unsigned factor first."""
        return (row, column) if self._are_columns_signed else (column, row)

    def row(self, word: ir.Value) -> ir.Value:
        """Four bytes of a row in every lane, flipped where that is needed."""
        if self.is_flipped:
            flips = int.from_bytes([_FLIP] * self.terms, "big") - 2**32
            spread, all_flips = (
                broadcast(v, self.lanes) for v in (word, constant(flips, word.type))
            )
            flipped = op("arith.xori", spread.type, spread, all_flips)
            return op("vector.bitcast", self._factors, flipped)
        return super().row(word)

    def corrected(self, total: ir.Value, by_column: ir.Value) -> ir.Value:
        """Without 128 times the column's sum."""
        i32 = ir.IntegerType.get_signless(32)
        places = broadcast(constant(_FLIP.bit_length() - 1, i32), self.lanes)
        part = op("arith.shli", total.type, by_column, places)
        # A signed row was 128 more than it is, one that is not signed 128 less.
        name = "arith.subi" if self._are_columns_signed else "arith.addi"
        return op(name, total.type, total, part)


def interleaved(vectors: Sequence[ir.Value]) -> ir.Value:
    """Element 0 of each vector, then element 1 of each, and so on; a power of two of them."""
    run = 1
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_zipped(first, second, run) for first, second in pairs]
        run *= 2
    return vectors[0]


def _zipped(first: ir.Value, second: ir.Value, run: int) -> ir.Value:
    """Runs of elements of two vectors in turns."""
    (count,) = first.type.shape
    order = [
        start + offset + place
        for start in range(0, count, run)
        for offset in (0, count)
        for place in range(run)
    ]
    type_ = vector_type(2 * count, first.type.element_type)
    mask = ir.DenseI64ArrayAttr.get(order)
    return op("vector.shuffle", type_, first, second, mask=mask)
