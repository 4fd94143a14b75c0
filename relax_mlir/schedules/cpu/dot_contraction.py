"""Contractions whose products are summed several a lane, by one instruction.

A step of the sum takes some of its terms at once (:mod:`relax_mlir.schedules.cpu.dots`). So
a panel holds as many steps of a column side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir import ir

from relax_mlir.schedules.contraction_axes import Axis, merged
from relax_mlir.schedules.contraction_plan import Plan
from relax_mlir.schedules.cpu.contraction_loops import ContractionLoops
from relax_mlir.schedules.cpu.dots import ByteDot, Dot, HalfDot, interleaved
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
    unrolled_loop,
    vector_type,
)
from relax_mlir.schedules.rule import VectorUnit
from relax_mlir.schedules.vectorize_body import load, store

__all__ = [
    "DotColumns",
    "DotContractionLoops",
    "for_runs",
    "runs_of_sum",
    "terms_of_dot",
]


def terms_of_dot(plan: Plan, unit: VectorUnit) -> int:
    """How many terms of a contraction's sums an instruction takes; 1 if there is none.

    The terms of a row must lie side by side, so that some of them are one word; all of
    them, if the columns are not packed yet. Their number must be known.
    """
    factors = plan.rows_of, plan.columns_of
    terms = unit.terms_of_dot(plan.element, *((f.element, f.extend) for f in factors))
    extents = plan.anchor.extents
    if terms == 1 or not all(isinstance(extents[axis], int) for axis in plan.k):
        return 1
    axes = runs_of_sum(plan, terms)
    is_one_run = len(axes) == 1 or plan.group == terms
    return terms if is_one_run and plan.a.stride_of(axes[-1].number) == 1 else 1


def runs_of_sum(plan: Plan, terms: int) -> list[Axis]:
    """The axes of a sum as rows are walked along; groups of terms do not cross the last."""
    extents = plan.anchor.extents
    axes = merged(plan.k, extents, (plan.a,))
    innermost = extents[plan.k[-1]]
    is_whole = isinstance(innermost, int) and innermost % terms == 0
    if plan.group == 1 or is_whole or len(plan.k) == 1:
        return axes
    *outer, last = plan.k
    before = [a for a in merged(outer, extents, (plan.a,)) if a.extent != 1]
    return [*before, Axis(last, innermost)]


def for_runs(
    axes: Sequence[Axis],
    step_of: Callable[[int], Extent],
    body: Callable[[Extent, Extent, list[ir.Value]], list[ir.Value]],
    sums: list[ir.Value],
    offset: Extent = 0,
    number: Extent = 0,
) -> list[ir.Value]:
    """Loops over the axes of a sum before the last, around a run of terms.

    Args:
        step_of: elements between neighbours of a row along an axis.
        body: what is done with a run: where its terms begin in a row, its number, and the
            sums so far; the sums after it.
    """
    if not axes:
        return body(offset, number, sums)
    axis, *inner = axes

    def at(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        here = add(offset, multiply(k, step_of(axis.number)))
        count = add(multiply(number, axis.extent), k)
        return for_runs(inner, step_of, body, list(carried), here, count)

    return for_loop(0, axis.extent, 1, at, sums)


class DotContractionLoops(ContractionLoops):
    """Writes the loops of a contraction that has such an instruction."""

    @cached_property
    def dot(self) -> Dot:
        """The instruction."""
        rows_of, columns_of = self.plan.rows_of, self.plan.columns_of
        if isinstance(self.plan.element, ir.FloatType):
            return HalfDot(self.lanes, rows_of.element)
        return ByteDot(self.lanes, rows_of, columns_of)

    def columns_from(self, points: Mapping[int, Extent], cut: Cut) -> Columns:
        return DotColumns(self.tiling, points, cut, self.dot, self.start())

    def alloc_panel(self) -> ir.Value:
        terms = self.dot.terms
        groups = ceil_div(self.tiling.depth, terms)
        width = terms * self.lanes * self.tile.vectors
        return alloc([multiply(groups, width)], self.plan.columns_of.element)

    def sums(
        self,
        points: Mapping[int, Extent],
        count: int,
        columns: Columns,
        number: Extent,
    ) -> list[ir.Value]:
        assert isinstance(columns, DotColumns)
        width = columns.vectors
        starts, dot = columns.starts, self.dot
        totals = (starts or [self.start()] * width) * count
        totals += [] if starts else [_nothing(self.tiling)] * width
        first = self.a.offset(points)
        step = self.a.step(self.last.number)
        rows = [add(first, multiply(step, i)) for i in range(count)]

        *outer, last = runs_of_sum(self.plan, dot.terms)
        depth = static(last.extent)
        groups = -(-depth // dot.terms)
        turn_begins = self._ahead(columns, number)

        def take(
            offset: Extent, first_group: Extent, sums: list[ir.Value]
        ) -> list[ir.Value]:
            def step(
                group: Extent, terms: int, sums: Sequence[ir.Value]
            ) -> list[ir.Value]:
                number = add(first_group, group)
                found = [columns.group(number, terms, q) for q in range(width)]
                k = add(offset, multiply(group, dot.terms))
                factors = [self._row(add(row, k), terms) for row in rows]
                factors += [] if starts else [dot.one()]
                pairs = [(factor, column) for factor in factors for column in found]
                return [dot.add(t, *pair) for t, pair in zip(sums, pairs, strict=True)]

            return _for_groups(
                depth,
                dot.terms,
                step,
                sums,
                lambda group: turn_begins(add(first_group, group)),
            )

        totals = for_runs(
            outer,
            self.a.step,
            lambda offset, run, sums: take(offset, multiply(run, groups), sums),
            totals,
        )
        if starts:
            return totals
        by_column = totals[-width:]
        return [
            dot.corrected(total, by_column[number % width])
            for number, total in enumerate(totals[:-width])
        ]

    def _row(self, offset: Extent, terms: int) -> ir.Value:
        """Some neighbours of a row, and zeros if they do not fill a word, in every lane."""
        view, word = self.a.view, ir.IntegerType.get_signless(32)
        element = self.dot.element
        if terms == self.dot.terms:
            found = op("vector.load", vector_type(terms, element), view, index(offset))
            together = op("vector.bitcast", vector_type(1, word), found)
            first = ir.DenseI64ArrayAttr.get([0])
            return self.dot.row(
                op("vector.extract", word, together, static_position=first)
            )
        total = constant(0, word)
        narrow = ir.IntegerType.get_signless(element.width)
        for term in range(terms):
            one = op("memref.load", element, view, index(add(offset, term)))
            bits = one if element == narrow else op("arith.bitcast", narrow, one)
            wide = op("arith.extui", word, bits)
            placed = op("arith.shli", word, wide, constant(element.width * term, word))
            total = op("arith.ori", word, total, placed)
        return self.dot.row(total)


@dataclass(frozen=True)
class _Groups:
    """Steps of the sum that lie side by side in memory, for vectors of columns.

    Attributes:
        view: a buffer of one dimension; begin: where the first group is.
        step: elements from a group to the next; width: those of a vector.
    """

    view: ir.Value
    begin: Extent
    step: int
    width: int

    def place(self, number: Extent, q: int) -> Extent:
        """Where vector ``q`` of a group is."""
        return add(self.begin, add(multiply(number, self.step), q * self.width))


class DotColumns(Columns):
    """One panel's columns, some steps of the sum side by side.

    Attributes:
        starts: sums of no terms, if they are known: what the rows' flipped bits make of
            the columns.
        groups: where the columns are read; None if they are not packed.
    """

    def __init__(
        self,
        tiling: Tiling,
        points: Mapping[int, Extent],
        cut: Cut,
        dot: Dot,
        start: ir.Value,
    ) -> None:
        super().__init__(tiling, points, cut, dot.terms)
        self._dot = dot
        self._start = start
        self.groups = None if self.plan.group == 1 else self._stored_groups(cut)
        self.starts = [] if dot.is_flipped else [start] * cut.vectors

    def _stored_groups(self, cut: Cut) -> _Groups:
        """As `tir-pack-constants` has stored them."""
        width = self._dot.terms * self.lanes
        # The last panel may use fewer vectors than a block has.
        return _Groups(self._flat.view, self._place(0), width * cut.full, width)

    def group(self, number: Extent, terms: int, q: int) -> ir.Value:
        """Vector ``q`` at ``terms`` steps of the sum; zeros for those that are missing."""
        groups = self.groups
        if groups is not None:
            where = [index(groups.place(number, q))]
            return load(groups.view, where, groups.width, 1, None)
        k = multiply(number, self._dot.terms)
        found = [self._stored(self._at_term(add(k, t)), q) for t in range(terms)]
        zero = broadcast(constant(0, self._dot.element), self.lanes)
        return interleaved([*found, *[zero] * (self._dot.terms - terms)])

    def _at_term(self, k: Extent) -> Extent:
        """How far a step of the sum is, counted through all of its axes."""
        axes = self.tiling.sum_axes
        points = unflatten(index(k), [axis.extent for axis in axes])
        total: Extent = 0
        for axis, point in zip(axes, points, strict=True):
            total = add(total, multiply(self.step(axis.number), point))
        return total

    def pack(self, panel: ir.Value, begin: Extent = 0) -> None:
        """Copy the columns, and sum them up where that is needed.

        Windows are found for one step after the other, and then put side by side in
        place: some steps take as much memory as the group of them.
        """
        are_together, self._begin = self.may_turn, begin
        if are_together:
            self.pack_turned(panel)
            self.read_packed(panel, begin)
        elif not self.plan.whole:
            super().pack(panel, begin)
        if not are_together or not self.starts:
            self._group_up(panel, are_together)
        self.read_packed(panel, begin)

    def read_packed(self, panel: ir.Value, begin: Extent) -> None:
        """Read the columns from where :meth:`pack` has copied them."""
        self.groups = self._packed_in(panel, begin)

    def _packed_in(self, panel: ir.Value, begin: Extent) -> _Groups:
        width = self._dot.terms * self.lanes
        return _Groups(panel, begin, width * self.vectors, width)

    def _group_up(self, panel: ir.Value, are_together: bool) -> None:
        """Put steps side by side, if they are not, and sum the columns up."""
        width, depth, terms = self.vectors, self.tiling.depth, self._dot.terms
        dot, target = self._dot, self._packed_in(panel, self._begin)

        def step(group: Extent, count: int, sums: Sequence[ir.Value]) -> list[ir.Value]:
            found = [self.group(group, count, q) for q in range(width)]
            for q, value in enumerate(() if are_together else found):
                where = [index(target.place(group, q))]
                store(value, panel, where, target.width, None)
            pairs = zip(sums, found, strict=True) if sums else ()
            return [dot.add(t, dot.one(), column) for t, column in pairs]

        counted = [] if self.starts else [_nothing(self.tiling)] * width
        sums = _for_groups(static(depth), terms, step, counted)
        self.starts = self.starts or [dot.corrected(self._start, c) for c in sums]


def _nothing(tiling: Tiling) -> ir.Value:
    """A vector of sums of nothing."""
    return broadcast(constant(0, tiling.plan.element), tiling.lanes)


def _for_groups(
    depth: int,
    terms: int,
    step: Callable[[Extent, int, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    turn_begins: Callable[[ir.Value], None] = lambda group: None,
) -> list[ir.Value]:
    """Take ``step`` for all groups of terms of a sum, and for those that are left."""
    groups, left = divmod(depth, terms)
    carried = unrolled_loop(
        groups, lambda group, sums: step(group, terms, sums), carried, turn_begins
    )
    return step(groups, left, carried) if left else carried
