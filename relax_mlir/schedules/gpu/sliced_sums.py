"""Sums of few results: the threads of a block share the terms of neighbouring results.

Columns of a block lie side by side, so that its threads read whole lines of memory; slices
of the terms go to different threads, and their parts are combined by shuffles within a
warp and through shared memory among warps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.schedules.combination import Combination
from relax_mlir.schedules.emit import (
    Extent,
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
from relax_mlir.schedules.gpu.launch import (
    WARP,
    alloc_shared,
    barrier,
    if_less,
    launch,
    shuffle_xor,
)
from relax_mlir.schedules.gpu.points import Points, PointsPlan
from relax_mlir.schedules.nest import Statement, point_count
from relax_mlir.schedules.statement_loops import StatementLoops, combinations_of

__all__ = ["SlicedSums", "slices_of"]

_ACROSS = 8  # threads of neighbouring results: 128 bytes of a line
_MOST_THREADS = 1024  # of a block
_ENOUGH_RESULTS = 1 << 15  # for a thread each
_FEWEST_TERMS = 8  # of a slice


def slices_of(plan: PointsPlan) -> int:
    """Into how many slices the terms of a sum are cut; 1 where a thread takes them all."""
    first, *others = plan.statements
    if not first.is_reduction or any(s.is_reduction for s in others):
        return 1
    length = plan.extents[plan.axis]
    is_even = isinstance(length, int) and length % plan.lanes == 0
    if not is_even or combinations_of(first) is None:
        return 1
    results = point_count(plan.extents) // plan.lanes
    terms = point_count(first.extents[len(plan.extents) :])
    if results >= _ENOUGH_RESULTS or terms < _FEWEST_TERMS * WARP // _ACROSS:
        return 1
    most = min(terms // _FEWEST_TERMS, _MOST_THREADS // _ACROSS)
    return 1 << (most.bit_length() - 1)


@dataclass
class SlicedSums:
    """Writes a plan whose first statement is a sum, in slices.

    Attributes:
        slices: a power of two, at least as many as share a warp.
    """

    plan: PointsPlan
    slices: int

    def __post_init__(self) -> None:
        self.points = Points(self.plan)
        self.axis = self.plan.axis if self.plan.lanes > 1 else None

    def write(self) -> None:
        """A block for each few neighbouring results."""
        extents = list(self.plan.extents)
        pieces = div(extents[self.plan.axis], self.plan.lanes)
        extents[self.plan.axis] = ceil_div(pieces, _ACROSS)

        def thread(block: ir.Value, number: ir.Value) -> None:
            where = unflatten(block, extents)
            across, self.slice = rem(number, _ACROSS), div(number, _ACROSS)
            piece = add(multiply(where[self.plan.axis], _ACROSS), across)
            # All threads meet at barriers: those beyond the last result repeat it.
            place = minimum(piece, subtract(pieces, 1))
            where[self.plan.axis] = multiply(place, self.plan.lanes)
            self._results(dict(enumerate(where)), across, piece, pieces)

        launch(product(extents), _ACROSS * self.slices, thread)

    def _results(
        self,
        points: dict[int, Extent],
        across: Extent,
        piece: Extent,
        pieces: Extent,
    ) -> None:
        """The results of a thread's neighbours; slice 0 writes them."""
        first, *others = self.plan.statements
        ways = combinations_of(first)
        assert ways is not None
        totals = self._shared(self._parts(first, points, ways), across, ways)

        def finish() -> None:
            lanes = self.plan.lanes
            self.points.place_registers(lanes)
            place = self.points.relocate
            zeros = dict.fromkeys(range(len(points), len(first.kinds)), 0)
            loops = StatementLoops(first, {**points, **zeros}, place, {})
            loops.emit_total(self.axis, lanes, totals, ways)
            for statement in others:
                following = StatementLoops(statement, points, place, {})
                following.emit_point(self.axis, lanes)

        if_less(self.slice, 1, lambda: if_less(piece, pieces, finish))

    def _parts(
        self, first: Statement, points: dict[int, Extent], ways: Sequence[Combination]
    ) -> list[ir.Value]:
        """What a thread's terms come to, for each output."""
        lanes, depth = self.plan.lanes, len(self.plan.extents)
        summed = first.extents[depth:]
        starts = []
        for way, access in zip(ways, first.outputs, strict=True):
            identity = constant(way.identity, access.buffer.type.element_type)
            starts.append(broadcast(identity, lanes) if lanes > 1 else identity)

        def step(number: ir.Value, *before: ir.Value) -> list[ir.Value]:
            terms = unflatten(number, summed)
            at = {**points, **{depth + n: p for n, p in enumerate(terms)}}
            loops = StatementLoops(first, at, self.points.relocate, {})
            return loops.emit_update(self.axis, lanes, before)

        return for_loop(self.slice, product(summed), self.slices, step, starts)

    def _shared(
        self, parts: Sequence[ir.Value], across: Extent, ways: Sequence[Combination]
    ) -> list[ir.Value]:
        """The parts of all slices as one, in slice 0."""
        found = []
        per_warp = WARP // _ACROSS
        for part, way in zip(parts, ways, strict=True):
            distance = _ACROSS
            while distance < WARP:
                part = way.of_two(part, _shuffled(part, distance))
                distance *= 2
            found.append(self._among_warps(part, across, way, per_warp))
        return found

    def _among_warps(
        self, part: ir.Value, across: Extent, way: Combination, per_warp: int
    ) -> ir.Value:
        warps = self.slices // per_warp
        if warps <= 1:
            return part
        lanes = self.plan.lanes
        memory = alloc_shared([warps, _ACROSS * lanes], element_of(part.type))
        place = index(multiply(across, lanes))

        def put() -> None:
            name = "vector.store" if lanes > 1 else "memref.store"
            op(name, None, part, memory, index(div(self.slice, per_warp)), place)

        if_less(rem(self.slice, per_warp), 1, put)
        barrier()

        def take(warp: ir.Value, total: ir.Value) -> list[ir.Value]:
            name = "vector.load" if lanes > 1 else "memref.load"
            return [way.of_two(total, op(name, part.type, memory, warp, place))]

        (total,) = for_loop(1, warps, 1, take, [part])
        return total


def _shuffled(value: ir.Value, distance: int) -> ir.Value:
    """What another thread of the warp has, lane by lane."""
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
