"""Column reductions with few results: the threads of a block split the reduction axis.

A block covers adjacent columns, so that its loads fill cache lines. Splits of the reduction
axis go to different threads; partial results are combined by shuffles within a warp, and
through shared memory across warps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    broadcast,
    ceil_div,
    constant,
    div,
    for_loop,
    index,
    minimum,
    multiply,
    op,
    product,
    rem,
    subtract,
    unflatten,
)
from relax_mlir.schedules.combiner import Combiner
from relax_mlir.schedules.gpu.launch import (
    WARP_SIZE,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
)
from relax_mlir.schedules.gpu.pointwise import PointwiseKernel, PointwisePlan
from relax_mlir.schedules.kernel_view import Statement, point_count
from relax_mlir.schedules.statement_loops import StatementLoops, combiners_of

__all__ = ["SplitColumnReduction", "split_count"]

_ACROSS = 8  # threads along adjacent columns: a cache line of 128 bytes
_MAX_THREADS = 1024  # per block
_ENOUGH_RESULTS = 1 << 15  # to occupy the GPU with a thread each
_MIN_K = 8  # reduction length of a split


def split_count(plan: PointwisePlan) -> int:
    """Number of splits of the reduction axis; 1 if one thread reduces all of it."""
    first, *others = plan.statements
    if not first.is_reduction or any(s.is_reduction for s in others):
        return 1
    length = plan.extents[plan.axis]
    is_even = isinstance(length, int) and length % plan.lanes == 0
    if not is_even or combiners_of(first) is None:
        return 1
    results = point_count(plan.extents) // plan.lanes
    k = point_count(first.extents[len(plan.extents) :])
    if results >= _ENOUGH_RESULTS or k < _MIN_K * WARP_SIZE // _ACROSS:
        return 1
    max_splits = min(k // _MIN_K, _MAX_THREADS // _ACROSS)
    return 1 << (max_splits.bit_length() - 1)


@dataclass
class SplitColumnReduction:
    """Emitter of a column reduction with a split reduction axis.

    Attributes:
        plan: its first statement is the reduction.
        splits: a power of two, at least the splits that share a warp.
    """

    plan: PointwisePlan
    splits: int

    def __post_init__(self) -> None:
        self.points = PointwiseKernel(self.plan)
        self.axis = self.plan.axis if self.plan.lanes > 1 else None

    def write(self) -> None:
        """Emits a launch with a thread block for each group of adjacent results."""
        extents = list(self.plan.extents)
        vectors = div(extents[self.plan.axis], self.plan.lanes)
        extents[self.plan.axis] = ceil_div(vectors, _ACROSS)

        def thread(block: ir.Value, number: ir.Value) -> None:
            where = unflatten(block, extents)
            across, self.split = rem(number, _ACROSS), div(number, _ACROSS)
            vector = add(multiply(where[self.plan.axis], _ACROSS), across)
            # All threads must reach the barriers: those past the end repeat the last result.
            clamped = minimum(vector, subtract(vectors, 1))
            where[self.plan.axis] = multiply(clamped, self.plan.lanes)
            self._results(dict(enumerate(where)), across, vector, vectors)

        launch(product(extents), _ACROSS * self.splits, thread)

    def _results(
        self,
        points: dict[int, IndexLike],
        across: IndexLike,
        vector: IndexLike,
        vectors: IndexLike,
    ) -> None:
        """Emits the results of a thread's vector; split 0 stores them."""
        first, *others = self.plan.statements
        combiners = combiners_of(first)
        assert combiners is not None
        totals = self._combine_splits(
            self._partial_results(first, points, combiners), across, combiners
        )

        def store_results() -> None:
            lanes = self.plan.lanes
            self.points.place_registers(lanes)
            relocate = self.points.relocate
            zeros = dict.fromkeys(range(len(points), len(first.kinds)), 0)
            loops = StatementLoops(first, {**points, **zeros}, relocate, {})
            loops.emit_total(self.axis, lanes, totals, combiners)
            for statement in others:
                following = StatementLoops(statement, points, relocate, {})
                following.emit_point(self.axis, lanes)

        if_less(self.split, 1, lambda: if_less(vector, vectors, store_results))

    def _partial_results(
        self,
        first: Statement,
        points: dict[int, IndexLike],
        combiners: Sequence[Combiner],
    ) -> list[ir.Value]:
        """Emits the partial reduction of a thread, for each output."""
        lanes, depth = self.plan.lanes, len(self.plan.extents)
        summed = first.extents[depth:]
        starts = []
        for combiner, access in zip(combiners, first.outputs, strict=True):
            identity = constant(combiner.identity, access.buffer.type.element_type)
            starts.append(broadcast(identity, lanes) if lanes > 1 else identity)

        def step(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            k = unflatten(number, summed)
            at = {**points, **{depth + n: p for n, p in enumerate(k)}}
            loops = StatementLoops(first, at, self.points.relocate, {})
            return loops.emit_update(self.axis, lanes, before)

        return for_loop(self.split, product(summed), self.splits, step, starts)

    def _combine_splits(
        self,
        partials: Sequence[ir.Value],
        across: IndexLike,
        combiners: Sequence[Combiner],
    ) -> list[ir.Value]:
        """Combines the partial results of all splits, in split 0."""
        totals = []
        per_warp = WARP_SIZE // _ACROSS
        for partial_result, combiner in zip(partials, combiners, strict=True):
            distance = _ACROSS
            while distance < WARP_SIZE:
                partial_result = combiner.combine(
                    partial_result, _shuffle_lanes(partial_result, distance)
                )
                distance *= 2
            totals.append(
                self._combine_warps(partial_result, across, combiner, per_warp)
            )
        return totals

    def _combine_warps(
        self,
        partial_result: ir.Value,
        across: IndexLike,
        combiner: Combiner,
        per_warp: int,
    ) -> ir.Value:
        warps = self.splits // per_warp
        if warps <= 1:
            return partial_result
        lanes = self.plan.lanes
        memory = alloc_shared([warps, _ACROSS * lanes], element_of(partial_result.type))
        slot = index(multiply(across, lanes))

        def store_partial() -> None:
            name = "vector.store" if lanes > 1 else "memref.store"
            op(
                name,
                None,
                partial_result,
                memory,
                index(div(self.split, per_warp)),
                slot,
            )

        if_less(rem(self.split, per_warp), 1, store_partial)
        barrier()

        def combine_next(warp: ir.Value, total: ir.Value) -> list[ir.Value]:
            name = "vector.load" if lanes > 1 else "memref.load"
            return [
                combiner.combine(
                    total, op(name, partial_result.type, memory, warp, slot)
                )
            ]

        (total,) = for_loop(1, warps, 1, combine_next, [partial_result])
        return total


def _shuffle_lanes(value: ir.Value, distance: int) -> ir.Value:
    """A butterfly shuffle of each element of a vector."""
    if not isinstance(value.type, ir.VectorType):
        return shuffle_xor(value, distance)
    lanes = []
    for lane in range(value.type.shape[0]):
        where = ir.DenseI64ArrayAttr.get([lane])
        one = op(
            "vector.extract", value.type.element_type, value, static_position=where
        )
        lanes.append(shuffle_xor(one, distance))
    return op("vector.from_elements", value.type, *lanes)
