"""The two products of attention, a tile of keys at a time, on sums that threads keep.

A warp has some rows of a block and all columns. Its threads share a row by four: each has
neighbouring columns, as the sums of ``mma.sync`` lie; so what all threads of a row have to
agree on takes two shuffles, and weights need not leave the registers in which scores were.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    broadcast,
    div,
    for_loop,
    lane_of,
    multiply,
    multiply_add,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_tile import Operand
from relax_mlir.schedules.gpu.launch import WARP, alloc_shared, meet_warp
from relax_mlir.schedules.gpu.mma import COLUMNS, ROWS, Fragments, Slice

__all__ = ["Layout", "MmaProducts", "Products", "SimtProducts", "Tile", "by_rows"]

# By row of a thread, its columns: vectors of neighbours.
Tile = list[list[ir.Value]]

V = TypeVar("V")

_SHARING = 4  # threads that have columns of a row


class Layout:
    """Which scores, and which columns of values, a thread has.

    Args:
        warp_rows: of a warp; a multiple of 16.
        keys: of a tile.
        depth: steps of the sum of a score; width: columns of values. Both are padded to
            what is taken at once.
    """

    score_lanes = 2  # neighbouring keys that a thread has
    value_lanes = 2  # neighbouring columns of values that it has

    def __init__(self, warp_rows: int, keys: int, depth: int, width: int) -> None:
        self.warp_rows, self.keys = warp_rows, keys
        self.depth, self.width = (-(-n // ROWS) * ROWS for n in (depth, width))

    @property
    def rows(self) -> int:
        """How many rows a thread has columns of."""
        return self.warp_rows // 8

    def row(self, thread: ir.Value, number: int) -> Extent:
        """A row of a thread, in the block."""
        first = multiply(div(thread, WARP), self.warp_rows)
        return add(add(first, div(rem(thread, WARP), _SHARING)), 8 * number)

    def column(self, thread: ir.Value, number: int, lanes: int) -> Extent:
        """Where neighbours of a thread begin."""
        first = multiply(rem(thread, _SHARING), lanes)
        return add(first, number * _SHARING * lanes)

    def pieces(self, columns: int, lanes: int) -> int:
        """How many times a thread has neighbours."""
        return columns // (_SHARING * lanes)

    def tile(self, sums: Sequence[Sequence[ir.Value]]) -> Tile:
        """The sums of tensor cores by row.

        Args:
            sums: four for each 16 rows and 8 columns: two neighbours of a row, and two of
                the eighth row after.
        """
        type_ = vector_type(2, ir.F32Type.get())
        return [
            [
                op("vector.from_elements", type_, *group[2 * half : 2 * half + 2])
                for group in groups
            ]
            for groups in by_rows(sums, self.rows // 2)
            for half in range(2)
        ]

    def sums(self, tile: Tile) -> list[list[ir.Value]]:
        """What :meth:`tile` made of them."""
        return [
            [lane_of(pair, n) for pair in pairs for n in range(2)]
            for y in range(0, self.rows, 2)
            for pairs in zip(tile[y], tile[y + 1], strict=True)
        ]


class Products(Layout, ABC):
    """How the warps of a block multiply, each its own rows."""

    pad: int  # elements behind a row of shared memory: threads meet different banks

    @property
    @abstractmethod
    def registers(self) -> int:
        """How many a thread needs for sums of values, scores, weights and factors."""

    @abstractmethod
    def is_turned(self, operand: Operand, *, is_of_scores: bool) -> bool:
        """Whether an operand lies in shared memory with points side by side, not steps."""

    @abstractmethod
    def begin(self, rows: int) -> None:
        """Make room at the top of a launch for what threads tell each other.

        Args:
            rows: of the block.
        """

    @abstractmethod
    def scores(
        self,
        queries: Slice,
        keys: Slice,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> Tile:
        """The products of all rows with the keys of a tile.

        Args:
            start: what the sums begin with.
        """

    @abstractmethod
    def weighted(
        self, weights: Tile, values: Slice, sums: Tile, thread: ir.Value
    ) -> Tile:
        """``sums`` and the products of weights with the values of a tile."""


class MmaProducts(Products):
    """On tensor cores.

    Args:
        fragments: of the type of the factors.
    """

    def __init__(self, fragments: Fragments, *sizes: int) -> None:
        super().__init__(*sizes)
        self.fragments, self.pad = fragments, fragments.pad

    def is_turned(self, operand: Operand, *, is_of_scores: bool) -> bool:
        return not operand.is_along_sum

    @property
    def registers(self) -> int:
        sums = self.rows * (self.width + 2 * self.keys) // _SHARING
        return sums + self.width // _SHARING

    def begin(self, rows: int) -> None:
        """Nothing: weights stay in the registers in which scores were."""

    def _queries_at(self, slice_: Slice, thread: ir.Value, step: int) -> list[ir.Value]:
        """The fragments of all rows of a warp, one after the other."""
        first = multiply(div(thread, WARP), self.warp_rows)
        number = rem(thread, WARP)
        return [
            register
            for y in range(0, self.warp_rows, ROWS)
            for register in self.fragments.rows(slice_, number, add(first, y), step)
        ]

    def scores(
        self,
        queries: Slice,
        keys: Slice,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> Tile:
        of, number = self.fragments, rem(thread, WARP)
        zero = op("arith.constant", ir.F32Type.get(), value=start)
        down = self.warp_rows // ROWS
        sums = [[zero] * 4 for _ in range(down * self.keys // COLUMNS)]
        for k in range(0, self.depth, of.steps):
            rows = self._queries_at(queries, thread, k)
            columns = [
                fragment
                for n in range(0, self.keys, 2 * COLUMNS)
                for fragment in of.columns(keys, number, n, k)
            ]
            sums = self._products(rows, columns, sums)
        return self.tile(sums)

    def _products(
        self,
        rows: Sequence[ir.Value],
        columns: Sequence[Sequence[ir.Value]],
        sums: Sequence[Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Sums of all rows, in groups of sixteen, and all columns."""
        totals = iter(sums)
        return [
            self.fragments.multiply(rows[y : y + 4], column, next(totals))
            for y in range(0, len(rows), 4)
            for column in columns
        ]

    def weighted(
        self, weights: Tile, values: Slice, sums: Tile, thread: ir.Value
    ) -> Tile:
        of, number = self.fragments, rem(thread, WARP)
        totals = self.sums(sums)
        for k in range(0, self.keys, of.steps):
            taken = range(k // COLUMNS, (k + of.steps) // COLUMNS)
            rows = [
                register
                for y in range(0, self.rows, 2)
                for register in of.rows_of_sums(
                    [(weights[y][x], weights[y + 1][x]) for x in taken]
                )
            ]
            columns = [
                fragment
                for n in range(0, self.width, 2 * COLUMNS)
                for fragment in of.columns_for_sums(values, number, n, k)
            ]
            totals = self._products(rows, columns, totals)
        return self.tile(totals)


class SimtProducts(Products):
    """On the processors that do all other arithmetic, in f32.

    A thread multiplies its rows with four neighbours at once: steps of a score, or columns
    of values. Weights go through shared memory.
    """

    value_lanes = 4
    pad = 4

    def is_turned(self, operand: Operand, *, is_of_scores: bool) -> bool:
        return not is_of_scores

    @property
    def registers(self) -> int:
        return self.rows * (self.width + self.keys) // _SHARING + self.keys

    def begin(self, rows: int) -> None:
        shape = [1, rows, self.keys + self.pad]
        self._weights = Slice(alloc_shared(shape, ir.F32Type.get()), 0, False)

    def scores(
        self,
        queries: Slice,
        keys: Slice,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> Tile:
        count = self.pieces(self.keys, self.score_lanes)
        columns = [
            add(self.column(thread, x, self.score_lanes), n)
            for x in range(count)
            for n in range(self.score_lanes)
        ]

        def step(k: ir.Value, *before: ir.Value) -> list[ir.Value]:
            of_rows = [_four(queries, self.row(thread, y), k) for y in range(self.rows)]
            of_columns = [_four(keys, column, k) for column in columns]
            totals = iter(before)
            return [
                _sum_of_products(a, b, next(totals))
                for a in of_rows
                for b in of_columns
            ]

        zero = op("arith.constant", ir.F32Type.get(), value=start)
        sums = for_loop(0, self.depth, 4, step, [zero] * (self.rows * len(columns)))
        pair = vector_type(self.score_lanes, ir.F32Type.get())
        pairs = [
            op("vector.from_elements", pair, *sums[n : n + self.score_lanes])
            for n in range(0, len(sums), self.score_lanes)
        ]
        return by_rows(pairs, self.rows)

    def weighted(
        self, weights: Tile, values: Slice, sums: Tile, thread: ir.Value
    ) -> Tile:
        for y, row in enumerate(weights):
            for x, pair in enumerate(row):
                column = self.column(thread, x, self.score_lanes)
                place = self._weights.at(self.row(thread, y), column)
                op("vector.store", None, pair, self._weights.memory, *place)
        meet_warp()  # it has its own rows alone

        def step(key: ir.Value, *before: ir.Value) -> list[ir.Value]:
            factors = [
                _four(self._weights, self.row(thread, y), key) for y in range(self.rows)
            ]
            totals = list(before)
            for n in range(4):
                columns = [
                    _four(values, self.column(thread, x, 4), add(key, n))
                    for x in range(self.width // 16)
                ]
                pairs = [
                    (broadcast(lane_of(factor, n), 4), column)
                    for factor in factors
                    for column in columns
                ]
                totals = [
                    multiply_add(factor, column, total)
                    for (factor, column), total in zip(pairs, totals, strict=True)
                ]
            return totals

        flat = [vector for row in sums for vector in row]
        return by_rows(for_loop(0, self.keys, 4, step, flat), self.rows)


def by_rows(values: Sequence[V], rows: int) -> list[list[V]]:
    """As many values for each row."""
    count = len(values) // rows
    return [list(values[n : n + count]) for n in range(0, len(values), count)]


def _four(slice_: Slice, place: Extent, step: Extent) -> ir.Value:
    """Four neighbours in shared memory."""
    type_ = vector_type(4, ir.F32Type.get())
    return op("vector.load", type_, slice_.memory, *slice_.at(place, step))


def _sum_of_products(a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
    """``total`` and the products of the lanes."""
    for n in range(a.type.shape[0]):
        total = op("math.fma", total.type, lane_of(a, n), lane_of(b, n), total)
    return total
