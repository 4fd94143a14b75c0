"""Contractions of bytes, of which one instruction sums four products a lane.

``vpdpbusd`` (AVX-512 VNNI, AVX-VNNI) adds to each of its 32-bit lanes four products of an
unsigned byte and a signed one. So a step of the sum takes four of its terms: four
neighbours of a row, in every lane, times a panel that holds four steps of a column side by
side. Where both operands are signed, or neither is, the row's bytes have their top bit
flipped, which adds or takes 128, and the sums start with what that makes of the columns.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.cpu.contraction_axes import Axis, merged
from relax_mlir.schedules.cpu.contraction_loops import ContractionLoops
from relax_mlir.schedules.cpu.contraction_plan import Factor, Plan
from relax_mlir.schedules.cpu.panel import Columns, Cut, Tiling
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    ceil_div,
    constant,
    for_loop,
    index,
    multiply,
    op,
    static,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.rule import BYTES_A_DOT
from relax_mlir.schedules.vectorize_body import load, store

__all__ = ["ByteContractionLoops", "has_bytes"]

_FLIP = 0x80  # the top bit: its change adds 128 to a byte, or takes it


def has_bytes(plan: Plan) -> bool:
    """Whether a contraction is of bytes, whose sums have a known number of terms.

    The terms of a row must lie side by side, so that four of them are one word; all of
    them, if the columns are not packed yet.
    """
    extents = plan.anchor.extents
    axes = _sum_axes(plan)
    return (
        all(map(_is_byte, (plan.rows_of, plan.columns_of)))
        and all(isinstance(extents[axis], int) for axis in plan.k)
        and (len(axes) == 1 or plan.group == BYTES_A_DOT)
        and plan.a.stride_of(axes[-1].number) == 1
    )


def _sum_axes(plan: Plan) -> list[Axis]:
    """The axes of a sum as rows are walked along; groups of terms do not cross the last."""
    extents = plan.anchor.extents
    axes = merged(plan.k, extents, (plan.a,))
    innermost = extents[plan.k[-1]]
    is_whole = isinstance(innermost, int) and innermost % BYTES_A_DOT == 0
    if plan.group == 1 or is_whole or len(plan.k) == 1:
        return axes
    *outer, last = plan.k
    before = [a for a in merged(outer, extents, (plan.a,)) if a.extent != 1]
    return [*before, Axis(last, innermost)]


def _is_byte(factor: Factor) -> bool:
    is_widened = factor.extend in ("arith.extsi", "arith.extui")
    return is_widened and str(factor.element) == "i8"


def _is_signed(factor: Factor) -> bool:
    return factor.extend == "arith.extsi"


class ByteContractionLoops(ContractionLoops):
    """Writes the loops of a contraction of bytes; see :func:`has_bytes`."""

    def __init__(self, plan: Plan, vector_bits: int) -> None:
        super().__init__(plan, vector_bits)
        is_signed = _is_signed(plan.rows_of), _is_signed(plan.columns_of)
        self.dot = _Dot(self.lanes, *is_signed)

    def columns_from(self, points: Mapping[int, Extent], cut: Cut) -> Columns:
        kind = _ByteColumns if self.plan.group == 1 else _PackedBytes
        return kind(self.tiling, points, cut, self.dot, self.start())

    def alloc_panel(self) -> ir.Value:
        groups = ceil_div(self.tiling.depth, BYTES_A_DOT)
        width = BYTES_A_DOT * self.lanes * self.tile.vectors
        return alloc([multiply(groups, width)], self.plan.columns_of.element)

    def sums(
        self,
        points: Mapping[int, Extent],
        count: int,
        columns: Columns,
        number: Extent,
    ) -> list[ir.Value]:
        assert isinstance(columns, _ByteColumns)
        width = columns.vectors
        starts, dot = columns.starts, self.dot
        totals = (starts or [self.start()] * width) * count
        totals += [] if starts else [dot.none()] * width
        first = self.a.offset(points)
        step = self.a.step(self.last.number)
        rows = [add(first, multiply(step, i)) for i in range(count)]

        *outer, last = _sum_axes(self.plan)
        depth = static(last.extent)
        groups = -(-depth // BYTES_A_DOT)

        def take(
            offset: Extent, first_group: Extent, sums: list[ir.Value]
        ) -> list[ir.Value]:
            def step(
                group: Extent, terms: int, sums: Sequence[ir.Value]
            ) -> list[ir.Value]:
                number = add(first_group, group)
                found = [columns.group(number, terms, q) for q in range(width)]
                k = add(offset, multiply(group, BYTES_A_DOT))
                factors = [self._row_bytes(add(row, k), terms) for row in rows]
                factors += [] if starts else [dot.one()]
                pairs = [(factor, column) for factor in factors for column in found]
                return [dot.add(t, *pair) for t, pair in zip(sums, pairs, strict=True)]

            return _for_groups(depth, step, sums)

        def nest(
            axes: Sequence[Axis], offset: Extent, number: Extent, sums: list[ir.Value]
        ) -> list[ir.Value]:
            if not axes:
                return take(offset, multiply(number, groups), sums)
            axis, *inner = axes
            a_step = self.a.step(axis.number)

            def body(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
                here = add(offset, multiply(k, a_step))
                count = add(multiply(number, axis.extent), k)
                return nest(inner, here, count, list(carried))

            return for_loop(0, axis.extent, 1, body, sums)

        totals = nest(outer, 0, 0, totals)
        if starts:
            return totals
        by_column = totals[-width:]
        return [
            dot.corrected(total, by_column[number % width])
            for number, total in enumerate(totals[:-width])
        ]

    def _row_bytes(self, offset: Extent, terms: int) -> ir.Value:
        """Some neighbours of a row, and zeros if they are not four, in every lane."""
        view, i32 = self.a.view, self.plan.element
        byte = view.type.element_type
        if terms == BYTES_A_DOT:
            four = vector_type(BYTES_A_DOT, byte)
            found = op("vector.load", four, view, index(offset))
            together = op("vector.bitcast", vector_type(1, i32), found)
            first = ir.DenseI64ArrayAttr.get([0])
            word = op("vector.extract", i32, together, static_position=first)
            return self.dot.row(word)
        word = constant(0, i32)
        for term in range(terms):
            one = op("memref.load", byte, view, index(add(offset, term)))
            wide = op("arith.extui", i32, one)
            placed = op("arith.shli", i32, wide, constant(8 * term, i32))
            word = op("arith.ori", i32, word, placed)
        return self.dot.row(word)


class _ByteColumns(Columns):
    """One panel's columns, four steps of the sum side by side.

    Attributes:
        starts: sums of no terms, if they are known: what the rows' flipped bits make of
            the columns.
    """

    def __init__(
        self,
        tiling: Tiling,
        points: Mapping[int, Extent],
        cut: Cut,
        dot: _Dot,
        start: ir.Value,
    ) -> None:
        super().__init__(tiling, points, cut)
        self._dot = dot
        self._start = start
        self._groups: ir.Value | None = None
        self.starts = [] if dot.is_flipped else [start] * cut.vectors

    def group(self, number: Extent, terms: int, q: int) -> ir.Value:
        """Vector ``q`` at ``terms`` steps of the sum; zeros for those that four lack."""
        if self._groups is not None:
            lanes = BYTES_A_DOT * self.lanes
            place = add(multiply(number, lanes * self.vectors), q * lanes)
            return load(self._groups, [index(place)], lanes, 1, None)
        k = multiply(number, BYTES_A_DOT)
        found = [self._stored(self._at_term(add(k, t)), q) for t in range(terms)]
        element = self.plan.columns_of.element
        zero = broadcast(constant(0, element), self.lanes)
        return _interleaved([*found, *[zero] * (BYTES_A_DOT - terms)])

    def _at_term(self, k: Extent) -> Extent:
        """How far a step of the sum is, counted through all of its axes."""
        axes = self.tiling.sum_axes
        points = unflatten(index(k), [axis.extent for axis in axes])
        total: Extent = 0
        for axis, point in zip(axes, points, strict=True):
            total = add(total, multiply(self.step(axis.number), point))
        return total

    def pack(self, panel: ir.Value) -> None:
        """Copy the columns, and sum them up where that is needed.

        Windows are found for one step after the other, and then put side by side in
        place: four steps take as much memory as the group of them.
        """
        if not self.plan.whole:
            super().pack(panel)
        width, depth = self.vectors, self.tiling.depth
        lanes = BYTES_A_DOT * self.lanes

        def step(group: Extent, terms: int, sums: Sequence[ir.Value]) -> list[ir.Value]:
            found = [self.group(group, terms, q) for q in range(width)]
            for q, value in enumerate(found):
                place = add(multiply(group, lanes * width), q * lanes)
                store(value, panel, [index(place)], lanes, None)
            pairs = zip(sums, found, strict=True) if sums else ()
            return [self._dot.add(t, self._dot.one(), column) for t, column in pairs]

        counted = [] if self.starts else [self._dot.none()] * width
        sums = _for_groups(depth, step, counted)
        self._groups = panel
        self.starts = self.starts or [
            self._dot.corrected(self._start, column) for column in sums
        ]


class _PackedBytes(_ByteColumns):
    """One panel's columns, which `tir-pack-constants` has stored in groups of steps."""

    def group(self, number: Extent, terms: int, q: int) -> ir.Value:
        lanes = BYTES_A_DOT * self.lanes
        # The last panel may use fewer vectors than a block has.
        offset = add(multiply(number, lanes * self.cut.full), q * lanes)
        where = [index(add(self._place(0), offset))]
        return load(self._flat.view, where, lanes, 1, None)


def _for_groups(
    depth: int,
    step: Callable[[Extent, int, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
) -> list[ir.Value]:
    """Take ``step`` for all groups of four terms of a sum, and for those that are left."""
    groups, left = divmod(depth, BYTES_A_DOT)
    carried = for_loop(
        0, groups, 1, lambda group, *sums: step(group, BYTES_A_DOT, sums), carried
    )
    return step(groups, left, carried) if left else carried


def _interleaved(vectors: Sequence[ir.Value]) -> ir.Value:
    """Element 0 of each of four vectors, then element 1 of each, and so on."""
    first, second, third, fourth = vectors
    low, high = _zipped(first, second, 1), _zipped(third, fourth, 1)
    return _zipped(low, high, 2)


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


class _Dot:
    """The instruction, for rows and columns of given signs.

    Attributes:
        is_flipped: whether the rows' bytes have their top bit flipped.
    """

    def __init__(
        self, lanes: int, are_rows_signed: bool, are_columns_signed: bool
    ) -> None:
        self.is_flipped = are_rows_signed == are_columns_signed
        self._lanes = lanes
        self._are_columns_signed = are_columns_signed

    def add(self, total: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
        """``total`` and the products of bytes of a row and of columns."""
        unsigned, signed = (row, column) if self._are_columns_signed else (column, row)
        bits = 32 * self._lanes
        empty = ir.DenseI32ArrayAttr.get([])
        return op(
            "llvm.call_intrinsic",
            total.type,
            total,
            unsigned,
            signed,
            intrin=ir.StringAttr.get(f"llvm.x86.avx512.vpdpbusd.{bits}"),
            op_bundle_sizes=empty,
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([3, 0]),
        )

    def row(self, word: ir.Value) -> ir.Value:
        """Four bytes of a row in every lane, as the instruction takes them."""
        spread = broadcast(word, self._lanes)
        if self.is_flipped:
            flips = constant(
                int.from_bytes([_FLIP] * BYTES_A_DOT, "big") - 2**32, word.type
            )
            spread = op(
                "arith.xori", spread.type, spread, broadcast(flips, self._lanes)
            )
        return op("vector.bitcast", self._bytes, spread)

    def one(self) -> ir.Value:
        """A row that sums the columns up."""
        i8 = ir.IntegerType.get_signless(8)
        return broadcast(constant(1, i8), BYTES_A_DOT * self._lanes)

    def none(self) -> ir.Value:
        """Sums of nothing."""
        return broadcast(constant(0, ir.IntegerType.get_signless(32)), self._lanes)

    def corrected(self, total: ir.Value, by_column: ir.Value) -> ir.Value:
        """A sum without what the flipped bits of its row make of its column."""
        i32 = ir.IntegerType.get_signless(32)
        places = broadcast(constant(_FLIP.bit_length() - 1, i32), self._lanes)
        part = op("arith.shli", total.type, by_column, places)
        # A signed row was 128 more than it is, one that is not signed 128 less.
        name = "arith.subi" if self._are_columns_signed else "arith.addi"
        return op(name, total.type, total, part)

    @property
    def _bytes(self) -> ir.VectorType:
        i8 = ir.IntegerType.get_signless(8)
        return vector_type(BYTES_A_DOT * self._lanes, i8)
