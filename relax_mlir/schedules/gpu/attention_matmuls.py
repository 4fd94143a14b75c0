"""The two matmuls of flash attention (QK^T and PV) per K/V tile, on register fragments.

A warp has some rows of the block tile and all columns. Four threads (a quad) share a row, with
adjacent columns each, in the accumulator layout of ``mma.sync``: row reductions take two
shuffles, and the weights stay in the registers of the scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    div,
    extract_lane,
    for_loop,
    multiply,
    multiply_add,
    op,
    rem,
    vector_type,
)
from relax_mlir.schedules.gpu.gemm_tile import TiledOperand
from relax_mlir.schedules.gpu.launch import WARP_SIZE, alloc_shared, sync_warp
from relax_mlir.schedules.gpu.mma import MMA_M, MMA_N, Fragments, SharedStage

__all__ = [
    "FragmentLayout",
    "MmaMatmuls",
    "RowFragment",
    "SimtMatmuls",
    "WarpMatmuls",
    "split_rows",
]

# A thread's fragment of an accumulator: by row, vectors of adjacent columns.
RowFragment = list[list[ir.Value]]

V = TypeVar("V")

_SHARING = 4  # threads of a quad, which share a row


class FragmentLayout:
    """Layout of score and output fragments.

    Args:
        warp_rows: rows of a warp tile; a multiple of 16.
        keys: of a K/V tile.
        depth: head dimension of queries and keys; width: of values. Both are padded to a
            multiple of the instruction size.
    """

    score_lanes = 2  # adjacent keys in a score vector of a thread
    value_lanes = 2  # adjacent columns in an output vector of a thread

    def __init__(self, warp_rows: int, keys: int, depth: int, width: int) -> None:
        self.warp_rows, self.keys = warp_rows, keys
        self.depth, self.width = (-(-n // MMA_M) * MMA_M for n in (depth, width))

    @property
    def rows(self) -> int:
        """Rows of a thread."""
        return self.warp_rows // 8

    def row(self, thread: ir.Value, number: int) -> IndexLike:
        """The row in the block tile of a thread's row ``number``."""
        first = multiply(div(thread, WARP_SIZE), self.warp_rows)
        return add(add(first, div(rem(thread, WARP_SIZE), _SHARING)), 8 * number)

    def column(self, thread: ir.Value, number: int, lanes: int) -> IndexLike:
        """The first column of a thread's vector ``number``."""
        first = multiply(rem(thread, _SHARING), lanes)
        return add(first, number * _SHARING * lanes)

    def vectors_per_row(self, columns: int, lanes: int) -> int:
        """Vectors of a thread per row."""
        return columns // (_SHARING * lanes)

    def by_row(self, accumulators: Sequence[Sequence[ir.Value]]) -> RowFragment:
        """Arranges tensor-core accumulators by row.

        Args:
            accumulators: four per 16 rows and 8 columns: a pair of row r, a pair of row r + 8.
        """
        type_ = vector_type(2, ir.F32Type.get())
        return [
            [
                op("vector.from_elements", type_, *group[2 * half : 2 * half + 2])
                for group in groups
            ]
            for groups in split_rows(accumulators, self.rows // 2)
            for half in range(2)
        ]

    def from_rows(self, tile: RowFragment) -> list[list[ir.Value]]:
        """The inverse of :meth:`by_row`."""
        return [
            [extract_lane(pair, n) for pair in pairs for n in range(2)]
            for y in range(0, self.rows, 2)
            for pairs in zip(tile[y], tile[y + 1], strict=True)
        ]


class WarpMatmuls(FragmentLayout, ABC):
    """The matmuls of a block's warps, each of which has its own rows."""

    pad: int  # elements of padding per row of shared memory, against bank conflicts

    @property
    @abstractmethod
    def registers(self) -> int:
        """Registers of a thread for accumulators, scores, weights and operand fragments."""

    @abstractmethod
    def is_transposed(self, operand: TiledOperand, *, is_for_scores: bool) -> bool:
        """Whether an operand's tile in shared memory is transposed (MN-major)."""

    @abstractmethod
    def allocate(self, rows: int) -> None:
        """Allocates shared memory for the exchange of weights, at the top of a launch.

        Args:
            rows: of the block tile.
        """

    @abstractmethod
    def scores(
        self,
        queries: SharedStage,
        keys: SharedStage,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> RowFragment:
        """Emits QK^T of a key tile.

        Args:
            start: initial value of the accumulators.
        """

    @abstractmethod
    def accumulate_values(
        self,
        weights: RowFragment,
        values: SharedStage,
        accumulators: RowFragment,
        thread: ir.Value,
    ) -> RowFragment:
        """Emits PV of a value tile, added to ``accumulators``."""


class MmaMatmuls(WarpMatmuls):
    """Matmuls on tensor cores by ``mma.sync``.

    Args:
        fragments: of the operand type.
    """

    def __init__(self, fragments: Fragments, *sizes: int) -> None:
        super().__init__(*sizes)
        self.fragments, self.pad = fragments, fragments.pad

    def is_transposed(self, operand: TiledOperand, *, is_for_scores: bool) -> bool:
        return not operand.is_k_major

    @property
    def registers(self) -> int:
        accumulators = self.rows * (self.width + 2 * self.keys) // _SHARING
        return accumulators + self.width // _SHARING

    def allocate(self, rows: int) -> None:
        """Nothing to allocate: weights stay in the registers of the scores."""

    def _queries_at(
        self, stage: SharedStage, thread: ir.Value, step: int
    ) -> list[ir.Value]:
        """Loads the A fragments of all rows of a warp."""
        first = multiply(div(thread, WARP_SIZE), self.warp_rows)
        number = rem(thread, WARP_SIZE)
        return [
            register
            for y in range(0, self.warp_rows, MMA_M)
            for register in self.fragments.load_a(stage, number, add(first, y), step)
        ]

    def scores(
        self,
        queries: SharedStage,
        keys: SharedStage,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> RowFragment:
        fragments, number = self.fragments, rem(thread, WARP_SIZE)
        zero = op("arith.constant", ir.F32Type.get(), value=start)
        down = self.warp_rows // MMA_M
        accumulators = [[zero] * 4 for _ in range(down * self.keys // MMA_N)]
        for k in range(0, self.depth, fragments.mma_k):
            rows = self._queries_at(queries, thread, k)
            columns = [
                fragment
                for n in range(0, self.keys, 2 * MMA_N)
                for fragment in fragments.load_b(keys, number, n, k)
            ]
            accumulators = self._outer_product(rows, columns, accumulators)
        return self.by_row(accumulators)

    def _outer_product(
        self,
        rows: Sequence[ir.Value],
        columns: Sequence[Sequence[ir.Value]],
        accumulators: Sequence[Sequence[ir.Value]],
    ) -> list[list[ir.Value]]:
        """Emits the outer product of row fragments (16 rows each) and column fragments."""
        totals = iter(accumulators)
        return [
            self.fragments.mma(rows[y : y + 4], column, next(totals))
            for y in range(0, len(rows), 4)
            for column in columns
        ]

    def accumulate_values(
        self,
        weights: RowFragment,
        values: SharedStage,
        accumulators: RowFragment,
        thread: ir.Value,
    ) -> RowFragment:
        fragments, number = self.fragments, rem(thread, WARP_SIZE)
        totals = self.from_rows(accumulators)
        for k in range(0, self.keys, fragments.mma_k):
            columns_of_k = range(k // MMA_N, (k + fragments.mma_k) // MMA_N)
            rows = [
                register
                for y in range(0, self.rows, 2)
                for register in fragments.a_from_accumulators(
                    [(weights[y][x], weights[y + 1][x]) for x in columns_of_k]
                )
            ]
            columns = [
                fragment
                for n in range(0, self.width, 2 * MMA_N)
                for fragment in fragments.load_b_for_accumulators(values, number, n, k)
            ]
            totals = self._outer_product(rows, columns, totals)
        return self.by_row(totals)


class SimtMatmuls(WarpMatmuls):
    """Matmuls on CUDA cores, in f32.

    Loads are vectors of four: along the head dimension for scores, along columns for values.
    Weights go through shared memory.
    """

    value_lanes = 4
    pad = 4

    def is_transposed(self, operand: TiledOperand, *, is_for_scores: bool) -> bool:
        return not is_for_scores

    @property
    def registers(self) -> int:
        return self.rows * (self.width + self.keys) // _SHARING + self.keys

    def allocate(self, rows: int) -> None:
        shape = [1, rows, self.keys + self.pad]
        self._weights = SharedStage(alloc_shared(shape, ir.F32Type.get()), 0, False)

    def scores(
        self,
        queries: SharedStage,
        keys: SharedStage,
        thread: ir.Value,
        start: ir.Attribute,
    ) -> RowFragment:
        count = self.vectors_per_row(self.keys, self.score_lanes)
        columns = [
            add(self.column(thread, x, self.score_lanes), n)
            for x in range(count)
            for n in range(self.score_lanes)
        ]

        def step(k: ir.Value, *before: ir.Value) -> list[ir.Value]:
            row_vectors = [
                _load_four(queries, self.row(thread, y), k) for y in range(self.rows)
            ]
            column_vectors = [_load_four(keys, column, k) for column in columns]
            totals = iter(before)
            return [
                _dot(a, b, next(totals)) for a in row_vectors for b in column_vectors
            ]

        zero = op("arith.constant", ir.F32Type.get(), value=start)
        accumulators = for_loop(
            0, self.depth, 4, step, [zero] * (self.rows * len(columns))
        )
        pair = vector_type(self.score_lanes, ir.F32Type.get())
        pairs = [
            op("vector.from_elements", pair, *accumulators[n : n + self.score_lanes])
            for n in range(0, len(accumulators), self.score_lanes)
        ]
        return split_rows(pairs, self.rows)

    def accumulate_values(
        self,
        weights: RowFragment,
        values: SharedStage,
        accumulators: RowFragment,
        thread: ir.Value,
    ) -> RowFragment:
        for y, row in enumerate(weights):
            for x, pair in enumerate(row):
                column = self.column(thread, x, self.score_lanes)
                indices = self._weights.at(self.row(thread, y), column)
                op("vector.store", None, pair, self._weights.memory, *indices)
        sync_warp()  # a warp reads its own rows only

        def step(key: ir.Value, *before: ir.Value) -> list[ir.Value]:
            row_weights = [
                _load_four(self._weights, self.row(thread, y), key)
                for y in range(self.rows)
            ]
            totals = list(before)
            for n in range(4):
                columns = [
                    _load_four(values, self.column(thread, x, 4), add(key, n))
                    for x in range(self.width // 16)
                ]
                pairs = [
                    (broadcast(extract_lane(weight, n), 4), column)
                    for weight in row_weights
                    for column in columns
                ]
                totals = [
                    multiply_add(weight, column, total)
                    for (weight, column), total in zip(pairs, totals, strict=True)
                ]
            return totals

        flat = [vector for row in accumulators for vector in row]
        return split_rows(for_loop(0, self.keys, 4, step, flat), self.rows)


def split_rows(values: Sequence[V], rows: int) -> list[list[V]]:
    """Splits a flat list into rows of equal length."""
    count = len(values) // rows
    return [list(values[n : n + count]) for n in range(0, len(values), count)]


def _load_four(stage: SharedStage, indices: IndexLike, step: IndexLike) -> ir.Value:
    """Loads four adjacent elements from shared memory."""
    type_ = vector_type(4, ir.F32Type.get())
    return op("vector.load", type_, stage.memory, *stage.at(indices, step))


def _dot(a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
    """Emits the dot product of two vectors, added to ``total``."""
    for n in range(a.type.shape[0]):
        total = op(
            "math.fma", total.type, extract_lane(a, n), extract_lane(b, n), total
        )
    return total
