"""Tensor cores of one warp: fragments of matrices, and the product of two of them.

``mma.sync`` multiplies 16 rows of some steps of a sum with those of 8 columns, and adds them
to sums in f32: 16 steps of f16 or bf16, or 8 of f32 rounded to 11 bits (TF32). Each thread of
the warp holds some elements of each.

Source: NVIDIA, PTX ISA, "Warp-level matrix instructions": mma.m16n8k16, mma.m16n8k8 and
ldmatrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    div,
    index,
    lane_of,
    multiply,
    op,
    rem,
)

__all__ = [
    "COLUMNS",
    "ROWS",
    "Fragments",
    "HalfFragments",
    "Slice",
    "Tf32Fragments",
    "word",
]

ROWS, COLUMNS = 16, 8


@dataclass(frozen=True)
class Slice:
    """An operand in shared memory.

    Attributes:
        memory: ``[half, place, step]``, or ``[half, step, place]`` if it is turned.
        half: which of the two slices.
    """

    memory: ir.Value
    half: Extent
    is_turned: bool

    def at(self, place: Extent, step: Extent) -> list[ir.Value]:
        """The indices of an element."""
        inner = (step, place) if self.is_turned else (place, step)
        return [index(self.half), *map(index, inner)]


class Fragments(ABC):
    """How fragments of a type are read and multiplied.

    Attributes:
        steps: of the sum in a fragment; pad: elements behind a row of a slice, so that
            threads meet different banks; turned_pad: behind one that goes across the sum.
        element: the type that the instruction calls the factors'.
    """

    steps: int
    pad: int
    turned_pad: int
    element: str

    @abstractmethod
    def rows(
        self, slice_: Slice, lane: Extent, row: Extent, step: Extent
    ) -> list[ir.Value]:
        """The registers of 16 rows from a row and a step of the sum on.

        Args:
            lane: the thread's number in its warp.
        """

    @abstractmethod
    def columns(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent
    ) -> list[list[ir.Value]]:
        """The registers of twice 8 columns."""

    @abstractmethod
    def rows_of_sums(
        self, pieces: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        """The registers of 16 rows whose steps are the columns of products before.

        Args:
            pieces: as many as have the steps, each of 8 columns: two neighbours of a row,
                and those of the eighth row after.
        """

    def columns_for_sums(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent
    ) -> list[list[ir.Value]]:
        """:meth:`columns`, with steps in the order that :meth:`rows_of_sums` has."""
        return self.columns(slice_, lane, column, step)

    def multiply(
        self,
        rows: Sequence[ir.Value],
        columns: Sequence[ir.Value],
        sums: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """``sums`` and the product of a fragment of rows and one of columns.

        Args:
            sums: four, of f32: two neighbours of a row, and two of the eighth row after.
        """
        kind = ir.Attribute.parse(f"#nvvm.mma_type<{self.element}>")
        shape = f"#nvvm.shape<m = {ROWS}, n = {COLUMNS}, k = {self.steps}>"
        found = op(
            "nvvm.mma.sync",
            ir.Type.parse("!llvm.struct<(f32, f32, f32, f32)>"),
            *rows,
            *columns,
            *sums,
            layoutA=ir.Attribute.parse("#nvvm.mma_layout<row>"),
            layoutB=ir.Attribute.parse("#nvvm.mma_layout<col>"),
            multiplicandAPtxType=kind,
            multiplicandBPtxType=kind,
            shape=ir.Attribute.parse(shape),
            operandSegmentSizes=ir.DenseI32ArrayAttr.get([4, 2, 4]),
        )
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(4))
        f32 = ir.F32Type.get()
        return [op("llvm.extractvalue", f32, found, position=p) for p in places]


class HalfFragments(Fragments):
    """Of f16 or bf16: ``ldmatrix`` reads four matrices of 8 by 8, and turns them if told.

    Args:
        element: the type of the factors.
    """

    steps = 16
    pad = turned_pad = 8

    def __init__(self, element: ir.Type) -> None:
        self.element = str(element)

    def rows(
        self, slice_: Slice, lane: Extent, row: Extent, step: Extent
    ) -> list[ir.Value]:
        if slice_.is_turned:
            m = multiply(rem(div(lane, 8), 2), 8)
            k = add(rem(lane, 8), multiply(div(lane, 16), 8))
        else:
            m, k = rem(lane, 16), multiply(div(lane, 16), 8)
        return self._load(slice_, add(row, m), add(step, k))

    def columns(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent
    ) -> list[list[ir.Value]]:
        if slice_.is_turned:
            n, k = multiply(div(lane, 16), 8), rem(lane, 16)
        else:
            n = add(rem(lane, 8), multiply(div(lane, 16), 8))
            k = multiply(rem(div(lane, 8), 2), 8)
        found = self._load(slice_, add(column, n), add(step, k))
        return [found[:2], found[2:]]

    def rows_of_sums(
        self, pieces: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        element = ir.F16Type.get() if self.element == "f16" else ir.BF16Type.get()
        pair = ir.VectorType.get([2], element)
        narrow = [op("arith.truncf", pair, p) for piece in pieces for p in piece]
        return [self._register(p) for p in narrow]

    def _load(self, slice_: Slice, place: Extent, step: Extent) -> list[ir.Value]:
        """Four matrices; each thread tells where one row of one of them begins."""
        element = slice_.memory.type.element_type
        made = op(
            "nvgpu.ldmatrix",
            ir.VectorType.get([4, 2], element),
            slice_.memory,
            *slice_.at(place, step),
            transpose=ir.BoolAttr.get(slice_.is_turned),
            numTiles=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        )
        pair = ir.VectorType.get([2], element)
        places = (ir.DenseI64ArrayAttr.get([n]) for n in range(4))
        pairs = [op("vector.extract", pair, made, static_position=p) for p in places]
        return [self._register(p) for p in pairs]

    def _register(self, pair: ir.Value) -> ir.Value:
        """Two elements as the instruction takes them."""
        return pair if self.element == "f16" else word(pair)


def word(pair: ir.Value) -> ir.Value:
    """Two numbers of 16 bits as one of 32, if they are not yet."""
    i32 = ir.IntegerType.get_signless(32)
    if pair.type == i32:
        return pair
    whole = op("vector.bitcast", ir.VectorType.get([1], i32), pair)
    first = ir.DenseI64ArrayAttr.get([0])
    return op("vector.extract", i32, whole, static_position=first)


class Tf32Fragments(Fragments):
    """Of f32, each element rounded to 11 bits when it is read."""

    steps = 8
    pad, turned_pad = 4, 8
    element = "tf32"

    def rows(
        self, slice_: Slice, lane: Extent, row: Extent, step: Extent
    ) -> list[ir.Value]:
        m, k = div(lane, 4), rem(lane, 4)
        places = [(8 * (n % 2), 4 * (n // 2)) for n in range(4)]
        return [
            self._load(slice_, add(add(row, m), down), add(add(step, k), on))
            for down, on in places
        ]

    def columns(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent
    ) -> list[list[ir.Value]]:
        return self._columns(slice_, lane, column, add(step, rem(lane, 4)), 4)

    def rows_of_sums(
        self, pieces: Sequence[tuple[ir.Value, ir.Value]]
    ) -> list[ir.Value]:
        # A thread has two neighbours where the instruction wants steps that are four apart:
        # those of the sum are taken in another order.
        (piece,) = pieces
        return [_rounded(lane_of(pair, n)) for n in range(2) for pair in piece]

    def columns_for_sums(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent
    ) -> list[list[ir.Value]]:
        first = add(step, multiply(rem(lane, 4), 2))
        return self._columns(slice_, lane, column, first, 1)

    def _columns(
        self, slice_: Slice, lane: Extent, column: Extent, step: Extent, apart: int
    ) -> list[list[ir.Value]]:
        """The registers of twice 8 columns, of two steps each."""
        n = div(lane, 4)
        return [
            [
                self._load(slice_, add(add(column, n), on), add(step, down))
                for down in (0, apart)
            ]
            for on in (0, COLUMNS)
        ]

    def _load(self, slice_: Slice, place: Extent, step: Extent) -> ir.Value:
        return _rounded(
            op("memref.load", ir.F32Type.get(), slice_.memory, *slice_.at(place, step))
        )


def _rounded(number: ir.Value) -> ir.Value:
    """An f32 with 11 bits, as the instruction takes it."""
    return op(
        "nvvm.convert.float.to.tf32",
        ir.IntegerType.get_signless(32),
        number,
        rnd=ir.Attribute.parse("#nvvm.fp_rnd_mode<rna>"),
    )
