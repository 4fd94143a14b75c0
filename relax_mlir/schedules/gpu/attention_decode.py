"""Attention of few queries, as in a step of decoding: keys and values are read once.

A block has the queries of a head and some of its keys. Threads that share a key have 16
bytes of it each, and as much of its value; what blocks have found is put together by a
second launch, where one block is not enough for a head.

Source: Dao, Haziza, Massa and Sizov, Flash-Decoding for long-context inference, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.contraction_axes import merged
from relax_mlir.schedules.contraction_plan import Factor, Plan
from relax_mlir.schedules.emit import (
    Extent,
    add,
    alloc,
    broadcast,
    ceil_div,
    constant,
    div,
    for_loop,
    index,
    less,
    minimum,
    multiply,
    multiply_add,
    op,
    product,
    rem,
    subtract,
    unflatten,
    vector_type,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.attention_products import Tile
from relax_mlir.schedules.gpu.attention_results import Results
from relax_mlir.schedules.gpu.attention_rows import (
    SUM,
    RowState,
    number_or_zero,
    of_thread,
    power,
    weighed,
)
from relax_mlir.schedules.gpu.attention_scores import ScoreMaps
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.gemm_tile import Side
from relax_mlir.schedules.gpu.grid import for_each_point
from relax_mlir.schedules.gpu.launch import (
    ACCESS_BYTES,
    WARP,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
)
from relax_mlir.schedules.nest import point_count

__all__ = ["AttentionDecode", "reads_pieces"]

_WARPS = 4  # of a block
_AT_ONCE = 4  # keys that a thread reads before it needs the first
_EXTRA = 4  # numbers behind the values of a part, of which two are used; 16 bytes
_ENOUGH_BLOCKS = 256  # that keep all processors busy
_FEWEST_KEYS = 128  # of a block


@dataclass(frozen=True)
class _Vectors:
    """An operand whose vectors, of keys, queries or values, threads read in pieces.

    Attributes:
        along: the axes of a vector; number: the axis that tells which.
        lanes: elements of a piece; count: pieces of a vector.
    """

    factor: Factor
    flat: Flat
    along: Side
    number: int
    lanes: int
    count: int

    @staticmethod
    def of(
        plan: Plan, factor: Factor, axes: Sequence[int], number: int, lanes: int
    ) -> _Vectors:
        side = Side(merged(axes, plan.anchor.extents, [factor.access]))
        size = side.extent
        assert isinstance(size, int)  # the rule has asked
        return _Vectors(
            factor, Flat.of(factor.access), side, number, lanes, size // lanes
        )

    def read(
        self, outer: Mapping[int, Extent], number: Extent, piece: Extent
    ) -> ir.Value:
        """A piece, in f32; the last where there are not so many."""
        place = multiply(minimum(piece, self.count - 1), self.lanes)
        at = {**outer, self.number: number, **self.along.points(place)}
        type_ = vector_type(self.lanes, self.factor.element)
        found = op("vector.load", type_, self.flat.view, index(self.flat.offset(at)))
        if self.factor.extend is None:
            return found
        wide = vector_type(self.lanes, ir.F32Type.get())
        return op(self.factor.extend, wide, found)


def reads_pieces(plan: SoftmaxPlan) -> bool:
    """Whether queries, keys and values lie in whole pieces of 16 bytes."""
    scores, values = plan.attention.scores, plan.attention.values
    lanes = _lanes(plan)
    for product_, factor, axes in (
        (scores, scores.rows_of, scores.k),
        (scores, scores.columns_of, scores.k),
        (values, values.columns_of, values.n),
    ):
        side = Side(merged(axes, product_.anchor.extents, [factor.access]))
        last = side.axes[-1]
        is_whole = isinstance(last.extent, int) and last.extent % lanes == 0
        if factor.access.stride_of(last.number) != 1 or not is_whole:
            return False
    return True


def _lanes(plan: SoftmaxPlan) -> int:
    """Elements of a piece: 16 bytes of the wider ones of keys and values."""
    scores, values = plan.attention.scores, plan.attention.values
    bits = max(f.element.width for f in (scores.columns_of, values.columns_of))
    return 8 * ACCESS_BYTES // bits


def _splits(plan: SoftmaxPlan) -> int:
    """How many blocks share the keys of a head."""
    *heads, _ = plan.attention.extents
    wanted = -(-_ENOUGH_BLOCKS // point_count(heads))
    keys = plan.attention.keys
    if not isinstance(keys, int):
        return wanted
    return max(1, min(wanted, keys // _FEWEST_KEYS))


class AttentionDecode:
    """Writes an attention of a few queries a head.

    Args:
        plan: what it computes.
    """

    def __init__(self, plan: SoftmaxPlan) -> None:
        self._plan = plan
        *self._heads, self._rows = plan.attention.extents
        self._keys, self._splits = plan.attention.keys, _splits(plan)
        scores, values = plan.attention.scores, plan.attention.values
        lanes, axes = _lanes(plan), (scores.m[-1], scores.n[0], values.k[0])
        self._queries = _Vectors.of(scores, scores.rows_of, scores.k, axes[0], lanes)
        self._of_keys = _Vectors.of(scores, scores.columns_of, scores.k, axes[1], lanes)
        self._values = _Vectors.of(values, values.columns_of, values.n, axes[2], lanes)
        self._width = self._values.count * lanes
        pieces = max(self._of_keys.count, self._values.count)
        self._sharing = min(WARP, 1 << (pieces - 1).bit_length())  # threads of a key
        self._parts = _WARPS * WARP // self._sharing  # that a block begins with

    def write(self) -> None:
        """A launch for parts of heads, and one that puts them together."""
        f32, threads = ir.F32Type.get(), _WARPS * WARP
        shape = [product(self._heads), self._splits, self._rows, self._width + _EXTRA]
        scratch = alloc(shape, f32) if self._splits > 1 else None

        def block(number: ir.Value, thread: ir.Value) -> None:
            *heads, split = unflatten(number, [*self._heads, self._splits])
            parts = self._write_parts(heads, split, thread)
            if scratch is None:
                write = partial(self._write_result, self._results(heads), parts)
            else:
                where = [div(number, self._splits)]
                whole = _Parts(scratch, where, self._splits, self._width)
                write = partial(self._write_part, parts, whole, split)

            def one(place: ir.Value) -> tuple[()]:
                write(*unflatten(place, [self._rows, self._width]))
                return ()

            for_loop(thread, self._rows * self._width, threads, one)

        launch(product([*self._heads, self._splits]), threads, block)
        if scratch is None:
            return

        def point(where: list[Extent]) -> None:
            *heads, row, column = where
            head: Extent = 0
            for place, extent in zip(heads, self._heads, strict=True):
                head = add(multiply(head, extent), place)
            parts = _Parts(scratch, [head], self._splits, self._width)
            self._write_result(self._results(heads), parts, row, column)

        for_each_point([*self._heads, self._rows, self._width], point)

    def _write_result(
        self, results: Results, parts: _Parts, row: Extent, column: Extent
    ) -> None:
        """A column of a row, if all its parts are there."""
        found = parts.together(row, column, self._plan.greatest)
        results.write(row, found.top, found.total, [(column, found.value)])

    def _write_part(
        self, parts: _Parts, whole: _Parts, split: Extent, row: Extent, column: Extent
    ) -> None:
        """A column of a row, as a part of the head's."""
        found = parts.together(row, column, self._plan.greatest)
        whole.put(found.value, split, row, column)
        numbers = partial(whole.put_numbers, split, row, found.top, found.total)
        if_less(column, 1, numbers)

    def _outer(self, heads: Sequence[Extent]) -> list[dict[int, Extent]]:
        """A head in the axes of each product."""
        attention = self._plan.attention
        return [
            {axis: p for axis, p in zip(axes, heads, strict=False) if axis is not None}
            for axes in (attention.score_axes, attention.value_axes)
        ]

    def _results(self, heads: Sequence[Extent]) -> Results:
        return Results(self._plan, heads, self._outer(heads)[1], 1)

    def _write_parts(
        self, heads: Sequence[Extent], split: Extent, thread: ir.Value
    ) -> _Parts:
        """What the threads of each key find, where all of the block see it."""
        share, own = rem(thread, self._sharing), div(thread, self._sharing)
        shape = [self._parts, self._rows, self._width + _EXTRA]
        memory = alloc_shared(shape, ir.F32Type.get())
        parts = _Parts(memory, (), self._parts, self._width)
        found = self._meet_keys(heads, split, own, share)
        lanes, pieces = self._values.lanes, self._values.count
        for row in range(self._rows):
            for number, value in enumerate(found.sums[row]):
                piece = add(share, number * self._sharing)
                place = multiply(piece, lanes)
                if_less(piece, pieces, partial(parts.put, value, own, row, place))
            numbers = (found.tops[row], found.totals[row])
            if_less(share, 1, partial(parts.put_numbers, own, row, *numbers))
        barrier()
        return parts

    def _meet_keys(
        self, heads: Sequence[Extent], split: Extent, own: Extent, share: Extent
    ) -> RowState:
        """The keys of a block that a thread has a share of, some at once."""
        of_scores, of_values = self._outer(heads)
        rows, per_turn = range(self._rows), self._parts * _AT_ONCE
        maps = ScoreMaps(self._plan, heads, of_scores, list(rows))
        pieces = [add(share, n) for n in range(0, self._of_keys.count, self._sharing)]
        queries = [
            [self._query(of_scores, row, piece) for piece in pieces] for row in rows
        ]
        size = ceil_div(self._keys, self._splits)
        begin = multiply(split, size)
        end = minimum(add(begin, size), self._keys)

        def meet(first: ir.Value, *before: ir.Value) -> list[ir.Value]:
            keys = [add(add(first, own), n * self._parts) for n in range(_AT_ONCE)]
            within = [minimum(key, subtract(self._keys, 1)) for key in keys]
            read = [
                [self._of_keys.read(of_scores, key, piece) for piece in pieces]
                for key in within
            ]
            values = [self._read_values(of_values, key, share) for key in within]
            scores = [[self._score(query, key) for key in read] for query in queries]
            mapped = maps.run(scores, within, 1, are_seen=False)
            are_there = [less(key, end) for key in keys]
            state = start.of(before)
            return self._added(state, mapped, are_there, values).values

        start = self._start()
        return start.of(for_loop(begin, end, per_turn, meet, start.values))

    def _read_values(
        self, outer: Mapping[int, Extent], key: Extent, share: Extent
    ) -> list[ir.Value]:
        pieces = range(0, self._values.count, self._sharing)
        return [self._values.read(outer, key, add(share, n)) for n in pieces]

    def _query(self, outer: Mapping[int, Extent], row: int, piece: Extent) -> ir.Value:
        """A piece of a query; zeros for a thread that has none."""
        found = self._queries.read(outer, row, piece)
        zero = broadcast(constant(0.0, ir.F32Type.get()), self._queries.lanes)
        is_there = less(piece, self._queries.count)
        return op("arith.select", found.type, is_there, found, zero)

    def _score(self, query: Sequence[ir.Value], key: Sequence[ir.Value]) -> ir.Value:
        """The product of a query and a key, in all threads that share it."""
        lanes, start = self._queries.lanes, self._plan.attention.scores.anchor.start
        total = broadcast(constant(0.0, ir.F32Type.get()), lanes)
        for a, b in zip(query, key, strict=True):
            total = multiply_add(a, b, total)
        score, distance = SUM.lanes_of(total), 1
        while distance < self._sharing:
            score = SUM.of_two(score, shuffle_xor(score, distance))
            distance *= 2
        return SUM.of_two(op("arith.constant", score.type, value=start), score)

    def _start(self) -> RowState:
        """What a thread knows before it meets any key."""
        f32, values = ir.F32Type.get(), self._values
        top = op("arith.constant", f32, value=self._plan.top.start)
        zero = constant(0.0, f32)
        pieces = -(-values.count // self._sharing)
        row = [broadcast(zero, values.lanes)] * pieces
        return RowState([top] * self._rows, [zero] * self._rows, [row] * self._rows)

    def _added(
        self,
        state: RowState,
        scores: Tile,
        are_there: Sequence[ir.Value],
        values: Sequence[Sequence[ir.Value]],
    ) -> RowState:
        """What a thread knows with some more keys."""
        f32 = ir.F32Type.get()
        least = constant(self._plan.greatest.identity, f32)
        known = [
            [
                op("arith.select", f32, is_there, score, least)
                for score, is_there in zip(row, are_there, strict=True)
            ]
            for row in scores
        ]
        way = self._plan.greatest
        greatest = [of_thread(row, way) for row in known]
        found = weighed(
            known, greatest, state, way, scale=self._plan.scale or 1, is_exact=True
        )
        after, sums = found.state(state.sums), []
        for row, totals in zip(found.weights, after.sums, strict=True):
            for weight, pieces in zip(row, values, strict=True):
                factor = broadcast(weight, self._values.lanes)
                totals = [
                    multiply_add(factor, piece, total)
                    for piece, total in zip(pieces, totals, strict=True)
                ]
            sums.append(totals)
        return replace(after, sums=sums)


@dataclass(frozen=True)
class _Found:
    """What is known of a row: its greatest score and sum, and a column of its values."""

    top: ir.Value
    total: ir.Value
    value: ir.Value


@dataclass(frozen=True)
class _Parts:
    """What was found for some keys each, in memory.

    Attributes:
        memory: ``[..., part, row, column]``; behind the columns are two numbers of the row.
        where: the first of its indices.
        count: how many parts; width: columns.
    """

    memory: ir.Value
    where: Sequence[Extent]
    count: int
    width: int

    def _place(self, part: Extent, row: Extent, column: Extent) -> list[ir.Value]:
        return [index(n) for n in (*self.where, part, row, column)]

    def put(self, value: ir.Value, part: Extent, row: Extent, column: Extent) -> None:
        """Write neighbouring columns, or one, of a part."""
        name = (
            "vector.store" if isinstance(value.type, ir.VectorType) else "memref.store"
        )
        op(name, None, value, self.memory, *self._place(part, row, column))

    def put_numbers(
        self, part: Extent, row: Extent, top: ir.Value, total: ir.Value
    ) -> None:
        """Write the numbers of a row of a part."""
        self.put(top, part, row, self.width)
        self.put(total, part, row, self.width + 1)

    def together(self, row: Extent, column: Extent, way: Combination) -> _Found:
        """A column of all parts."""
        f32 = ir.F32Type.get()

        def load(part: Extent, place: Extent) -> ir.Value:
            return op("memref.load", f32, self.memory, *self._place(part, row, place))

        def greater(part: ir.Value, before: ir.Value) -> list[ir.Value]:
            return [way.of_two(before, load(part, self.width))]

        def add_up(part: ir.Value, *before: ir.Value) -> list[ir.Value]:
            scale = power(load(part, self.width), base, is_exact=True)
            return [
                op("math.fma", f32, load(part, place), scale, total)
                for place, total in zip((self.width + 1, column), before, strict=True)
            ]

        (top,) = for_loop(1, self.count, 1, greater, [load(0, self.width)])
        base, zero = number_or_zero(top), constant(0.0, f32)
        total, value = for_loop(0, self.count, 1, add_up, [zero, zero])
        return _Found(top, total, value)
