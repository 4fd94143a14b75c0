"""Split-KV attention for few queries (decode steps), bound by the bandwidth of reading K and V.

A block has all queries of a head and a range of its keys. The threads of a group share a key:
each has a vector of 16 bytes of it, and of its value. If several blocks share a head, a second
launch combines their partial results.

Source: Dao, Haziza, Massa and Sizov, Flash-Decoding for long-context inference, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
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
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.contraction_axes import merge_axes
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.attention_epilogue import AttentionEpilogue
from relax_mlir.schedules.gpu.attention_matmuls import RowFragment
from relax_mlir.schedules.gpu.attention_scores import ScoreModifiers
from relax_mlir.schedules.gpu.attention_softmax import SoftmaxPlan
from relax_mlir.schedules.gpu.gemm_tile import GemmDim
from relax_mlir.schedules.gpu.grid import for_each_point
from relax_mlir.schedules.gpu.launch import (
    ACCESS_BYTES,
    WARP_SIZE,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
)
from relax_mlir.schedules.gpu.online_softmax import (
    SUM,
    SoftmaxState,
    exponential,
    finite_or_zero,
    online_softmax_step,
    reduce_in_thread,
)
from relax_mlir.schedules.kernel_view import point_count
from relax_mlir.schedules.match_contraction import ContractionOperand, ContractionPlan

__all__ = ["AttentionDecode", "allows_vector_loads"]

_WARPS = 4  # per block
_UNROLL = 4  # keys of a thread whose loads are in flight together
_STATISTICS = 4  # elements after the values of a partial result, of which two are used
_ENOUGH_BLOCKS = 256  # to occupy all SMs
_MIN_KEYS = 128  # per block


@dataclass(frozen=True)
class _VectorOperand:
    """An operand (queries, keys or values) whose rows are loaded as 16-byte vectors.

    Attributes:
        along: the axes of a row; number: the axis that indexes rows.
        lanes: elements of a vector; count: vectors of a row.
    """

    operand: ContractionOperand
    flat: FlatAccess
    along: GemmDim
    number: int
    lanes: int
    count: int

    @staticmethod
    def of(
        plan: ContractionPlan,
        operand: ContractionOperand,
        axes: Sequence[int],
        number: int,
        lanes: int,
    ) -> _VectorOperand:
        side = GemmDim(merge_axes(axes, plan.anchor.extents, [operand.access]))
        size = side.extent
        assert isinstance(size, int)  # the rule has checked
        return _VectorOperand(
            operand, FlatAccess.of(operand.access), side, number, lanes, size // lanes
        )

    def load(
        self, outer: Mapping[int, IndexLike], number: IndexLike, vector: IndexLike
    ) -> ir.Value:
        """Emits the load of a vector, extended to f32; the last one if out of bounds."""
        place = multiply(minimum(vector, self.count - 1), self.lanes)
        at = {**outer, self.number: number, **self.along.delinearize(place)}
        type_ = vector_type(self.lanes, self.operand.element)
        found = op("vector.load", type_, self.flat.view, index(self.flat.offset(at)))
        if self.operand.extend is None:
            return found
        wide = vector_type(self.lanes, ir.F32Type.get())
        return op(self.operand.extend, wide, found)


def allows_vector_loads(plan: SoftmaxPlan) -> bool:
    """Whether rows of queries, keys and values are whole 16-byte vectors."""
    scores, values = plan.attention.scores, plan.attention.values
    lanes = _vector_lanes(plan)
    for matmul, operand, axes in (
        (scores, scores.lhs, scores.k),
        (scores, scores.rhs, scores.k),
        (values, values.rhs, values.n),
    ):
        side = GemmDim(merge_axes(axes, matmul.anchor.extents, [operand.access]))
        last = side.axes[-1]
        is_whole = isinstance(last.extent, int) and last.extent % lanes == 0
        if operand.access.stride_of(last.number) != 1 or not is_whole:
            return False
    return True


def _vector_lanes(plan: SoftmaxPlan) -> int:
    """Elements of a vector: 16 bytes of the wider type of keys and values."""
    scores, values = plan.attention.scores, plan.attention.values
    bits = max(f.element.width for f in (scores.rhs, values.rhs))
    return 8 * ACCESS_BYTES // bits


def _split_count(plan: SoftmaxPlan) -> int:
    """Number of blocks that share the keys of a head."""
    *heads, _ = plan.attention.extents
    splits = -(-_ENOUGH_BLOCKS // point_count(heads))
    keys = plan.attention.keys
    if not isinstance(keys, int):
        return splits
    return max(1, min(splits, keys // _MIN_KEYS))


class AttentionDecode:
    """Emitter of split-KV attention.

    Args:
        plan: the attention.
    """

    def __init__(self, plan: SoftmaxPlan) -> None:
        self._plan = plan
        *self._heads, self._rows = plan.attention.extents
        self._keys, self._split_count = plan.attention.keys, _split_count(plan)
        scores, values = plan.attention.scores, plan.attention.values
        lanes, axes = _vector_lanes(plan), (scores.m[-1], scores.n[0], values.k[0])
        self._query_vectors = _VectorOperand.of(
            scores, scores.lhs, scores.k, axes[0], lanes
        )
        self._key_vectors = _VectorOperand.of(
            scores, scores.rhs, scores.k, axes[1], lanes
        )
        self._value_vectors = _VectorOperand.of(
            values, values.rhs, values.n, axes[2], lanes
        )
        self._width = self._value_vectors.count * lanes
        vectors = max(self._key_vectors.count, self._value_vectors.count)
        # Threads of a group, which share a key.
        self._group_size = min(WARP_SIZE, 1 << (vectors - 1).bit_length())
        self._groups = _WARPS * WARP_SIZE // self._group_size

    def write(self) -> None:
        """Emits the launch for the KV splits, and the one that combines them."""
        f32, threads = ir.F32Type.get(), _WARPS * WARP_SIZE
        shape = [
            product(self._heads),
            self._split_count,
            self._rows,
            self._width + _STATISTICS,
        ]
        workspace = alloc(shape, f32) if self._split_count > 1 else None

        def block(number: ir.Value, thread: ir.Value) -> None:
            *heads, split = unflatten(number, [*self._heads, self._split_count])
            partials = self._write_group_partials(heads, split, thread)
            if workspace is None:
                write = partial(self._write_result, self._results(heads), partials)
            else:
                where = [div(number, self._split_count)]
                whole = _PartialResults(
                    workspace, where, self._split_count, self._width
                )
                write = partial(self._write_split, partials, whole, split)

            def store_element(place: ir.Value) -> tuple[()]:
                write(*unflatten(place, [self._rows, self._width]))
                return ()

            for_loop(thread, self._rows * self._width, threads, store_element)

        launch(product([*self._heads, self._split_count]), threads, block)
        if workspace is None:
            return

        def point(where: list[IndexLike]) -> None:
            *heads, row, column = where
            head: IndexLike = 0
            for place, extent in zip(heads, self._heads, strict=True):
                head = add(multiply(head, extent), place)
            partials = _PartialResults(
                workspace, [head], self._split_count, self._width
            )
            self._write_result(self._results(heads), partials, row, column)

        for_each_point([*self._heads, self._rows, self._width], point)

    def _write_result(
        self,
        results: AttentionEpilogue,
        partials: _PartialResults,
        row: IndexLike,
        column: IndexLike,
    ) -> None:
        """Combines a column of a row from all partial results, and stores the result."""
        found = partials.combine(row, column, self._plan.max_combiner)
        results.write(row, found.row_max, found.row_sum, [(column, found.value)])

    def _write_split(
        self,
        partials: _PartialResults,
        whole: _PartialResults,
        split: IndexLike,
        row: IndexLike,
        column: IndexLike,
    ) -> None:
        """Combines a column of a row within a block, and stores it to the workspace."""
        found = partials.combine(row, column, self._plan.max_combiner)
        whole.store(found.value, split, row, column)
        store_row_statistics = partial(
            whole.store_statistics, split, row, found.row_max, found.row_sum
        )
        if_less(column, 1, store_row_statistics)

    def _outer(self, heads: Sequence[IndexLike]) -> list[dict[int, IndexLike]]:
        """The head's indices, by the axes of each matmul."""
        attention = self._plan.attention
        return [
            {axis: p for axis, p in zip(axes, heads, strict=False) if axis is not None}
            for axes in (attention.score_axes, attention.value_axes)
        ]

    def _results(self, heads: Sequence[IndexLike]) -> AttentionEpilogue:
        return AttentionEpilogue(self._plan, heads, self._outer(heads)[1], 1)

    def _write_group_partials(
        self, heads: Sequence[IndexLike], split: IndexLike, thread: ir.Value
    ) -> _PartialResults:
        """Emits the loop over the keys; stores partial results of groups to shared memory."""
        lane, group = rem(thread, self._group_size), div(thread, self._group_size)
        shape = [self._groups, self._rows, self._width + _STATISTICS]
        memory = alloc_shared(shape, ir.F32Type.get())
        partials = _PartialResults(memory, (), self._groups, self._width)
        found = self._key_loop(heads, split, group, lane)
        lanes, vectors = self._value_vectors.lanes, self._value_vectors.count
        for row in range(self._rows):
            for number, value in enumerate(found.accumulators[row]):
                vector = add(lane, number * self._group_size)
                place = multiply(vector, lanes)
                if_less(
                    vector, vectors, partial(partials.store, value, group, row, place)
                )
            statistics = (found.row_max[row], found.row_sum[row])
            if_less(
                lane,
                1,
                partial(partials.store_statistics, group, row, *statistics),
            )
        barrier()
        return partials

    def _key_loop(
        self,
        heads: Sequence[IndexLike],
        split: IndexLike,
        group: IndexLike,
        lane: IndexLike,
    ) -> SoftmaxState:
        """Emits the loop over the keys of a group of threads."""
        of_scores, of_values = self._outer(heads)
        rows, keys_per_step = range(self._rows), self._groups * _UNROLL
        modifiers = ScoreModifiers(self._plan, heads, of_scores, list(rows))
        vectors = [
            add(lane, n) for n in range(0, self._key_vectors.count, self._group_size)
        ]
        queries = [
            [self._load_query(of_scores, row, vector) for vector in vectors]
            for row in rows
        ]
        size = ceil_div(self._keys, self._split_count)
        begin = multiply(split, size)
        end = minimum(add(begin, size), self._keys)

        def step(first: ir.Value, *before: ir.Value) -> list[ir.Value]:
            keys = [add(add(first, group), n * self._groups) for n in range(_UNROLL)]
            clamped = [minimum(key, subtract(self._keys, 1)) for key in keys]
            loaded_keys = [
                [self._key_vectors.load(of_scores, key, vector) for vector in vectors]
                for key in clamped
            ]
            values = [self._load_values(of_values, key, lane) for key in clamped]
            scores = [
                [self._score(query, key) for key in loaded_keys] for query in queries
            ]
            modified = modifiers.run(scores, clamped, 1, all_visible=False)
            in_bounds = [less(key, end) for key in keys]
            state = start.from_values(before)
            return self._accumulate(state, modified, in_bounds, values).values

        start = self._initial_state()
        return start.from_values(
            for_loop(begin, end, keys_per_step, step, start.values)
        )

    def _load_values(
        self, outer: Mapping[int, IndexLike], key: IndexLike, lane: IndexLike
    ) -> list[ir.Value]:
        vectors = range(0, self._value_vectors.count, self._group_size)
        return [self._value_vectors.load(outer, key, add(lane, n)) for n in vectors]

    def _load_query(
        self, outer: Mapping[int, IndexLike], row: int, vector: IndexLike
    ) -> ir.Value:
        """A vector of a query; zeros for threads past its end."""
        found = self._query_vectors.load(outer, row, vector)
        zero = broadcast(constant(0.0, ir.F32Type.get()), self._query_vectors.lanes)
        is_in_bounds = less(vector, self._query_vectors.count)
        return op("arith.select", found.type, is_in_bounds, found, zero)

    def _score(self, query: Sequence[ir.Value], key: Sequence[ir.Value]) -> ir.Value:
        """Emits the dot product of a query and a key, reduced across the group."""
        lanes, start = (
            self._query_vectors.lanes,
            self._plan.attention.scores.anchor.start,
        )
        total = broadcast(constant(0.0, ir.F32Type.get()), lanes)
        for a, b in zip(query, key, strict=True):
            total = multiply_add(a, b, total)
        score, distance = SUM.lanes_of(total), 1
        while distance < self._group_size:
            score = SUM.combine(score, shuffle_xor(score, distance))
            distance *= 2
        return SUM.combine(op("arith.constant", score.type, value=start), score)

    def _initial_state(self) -> SoftmaxState:
        """The initial softmax state."""
        f32, values = ir.F32Type.get(), self._value_vectors
        row_max = op("arith.constant", f32, value=self._plan.row_max.start)
        zero = constant(0.0, f32)
        vectors = -(-values.count // self._group_size)
        row = [broadcast(zero, values.lanes)] * vectors
        return SoftmaxState(
            [row_max] * self._rows, [zero] * self._rows, [row] * self._rows
        )

    def _accumulate(
        self,
        state: SoftmaxState,
        scores: RowFragment,
        in_bounds: Sequence[ir.Value],
        values: Sequence[Sequence[ir.Value]],
    ) -> SoftmaxState:
        """Emits the update of the softmax state with some keys."""
        f32 = ir.F32Type.get()
        lowest = constant(self._plan.max_combiner.identity, f32)
        masked = [
            [
                op("arith.select", f32, is_in_bounds, score, lowest)
                for score, is_in_bounds in zip(row, in_bounds, strict=True)
            ]
            for row in scores
        ]
        combiner = self._plan.max_combiner
        tile_max = [reduce_in_thread(row, combiner) for row in masked]
        found = online_softmax_step(
            masked,
            tile_max,
            state,
            combiner,
            scale=self._plan.scale or 1,
            is_exact=True,
        )
        after, accumulators = found.next_state(state.accumulators), []
        for row, totals in zip(found.weights, after.accumulators, strict=True):
            for weight, vectors in zip(row, values, strict=True):
                factor = broadcast(weight, self._value_vectors.lanes)
                totals = [
                    multiply_add(factor, vector, total)
                    for vector, total in zip(vectors, totals, strict=True)
                ]
            accumulators.append(totals)
        return replace(after, accumulators=accumulators)


@dataclass(frozen=True)
class _CombinedRow:
    """A combined row: its maximum, its sum of exponentials, and a column of the output."""

    row_max: ir.Value
    row_sum: ir.Value
    value: ir.Value


@dataclass(frozen=True)
class _PartialResults:
    """Partial results of KV splits in memory.

    Attributes:
        memory: ``[..., split, row, column]``; row maximum and row sum follow the columns.
        where: its leading indices.
        count: of splits; width: columns.
    """

    memory: ir.Value
    where: Sequence[IndexLike]
    count: int
    width: int

    def _place(
        self, split: IndexLike, row: IndexLike, column: IndexLike
    ) -> list[ir.Value]:
        return [index(n) for n in (*self.where, split, row, column)]

    def store(
        self, value: ir.Value, split: IndexLike, row: IndexLike, column: IndexLike
    ) -> None:
        """Emits the store of a vector of columns, or of one."""
        name = (
            "vector.store" if isinstance(value.type, ir.VectorType) else "memref.store"
        )
        op(name, None, value, self.memory, *self._place(split, row, column))

    def store_statistics(
        self, split: IndexLike, row: IndexLike, row_max: ir.Value, row_sum: ir.Value
    ) -> None:
        """Emits the stores of the row maximum and the row sum."""
        self.store(row_max, split, row, self.width)
        self.store(row_sum, split, row, self.width + 1)

    def combine(
        self, row: IndexLike, column: IndexLike, combiner: Combiner
    ) -> _CombinedRow:
        """Combines a column over all splits, rescaled to the common maximum."""
        f32 = ir.F32Type.get()

        def load(split: IndexLike, place: IndexLike) -> ir.Value:
            return op("memref.load", f32, self.memory, *self._place(split, row, place))

        def take_max(split: ir.Value, before: ir.Value) -> list[ir.Value]:
            return [combiner.combine(before, load(split, self.width))]

        def accumulate(split: ir.Value, *before: ir.Value) -> list[ir.Value]:
            scale = exponential(load(split, self.width), base, is_exact=True)
            return [
                op("math.fma", f32, load(split, place), scale, total)
                for place, total in zip((self.width + 1, column), before, strict=True)
            ]

        (row_max,) = for_loop(1, self.count, 1, take_max, [load(0, self.width)])
        base, zero = finite_or_zero(row_max), constant(0.0, f32)
        row_sum, value = for_loop(0, self.count, 1, accumulate, [zero, zero])
        return _CombinedRow(row_max, row_sum, value)
