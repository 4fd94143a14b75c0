"""GEMM loops on dot-product instructions, with panels in VNNI layout.

A step of the K loop covers a group of ``vnni_factor`` consecutive k
(:mod:`relax_mlir.schedules.cpu.dot_product`), which panels interleave per column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    alloc,
    broadcast,
    ceil_div,
    constant,
    for_loop,
    index,
    multiply,
    op,
    static_size,
    unflatten,
    unrolled_loop,
    vector_type,
)
from relax_mlir.schedules.contraction_axes import Axis, merge_axes
from relax_mlir.schedules.cpu.dot_product import (
    Bf16DotProduct,
    DotProduct,
    Int8DotProduct,
    interleave,
)
from relax_mlir.schedules.cpu.gemm_loops import GemmLoops
from relax_mlir.schedules.cpu.gemm_panel import Panel, PanelSlice, PanelTiling
from relax_mlir.schedules.match_contraction import ContractionPlan
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.schedules.vectorize_body import load_vector, store_vector

__all__ = [
    "DotProductGemmLoops",
    "DotProductPanel",
    "for_k_runs",
    "k_runs",
    "vnni_factor",
]


def vnni_factor(plan: ContractionPlan, unit: VectorUnit) -> int:
    """VNNI factor of the dot-product instruction for a GEMM; 1 if none is applicable.

    K must be static, and contiguous in the LHS in its innermost run, so that a group is one
    word. Without prepacking, all of K must be one run.
    """
    operands = plan.lhs, plan.rhs
    factor = unit.dot_vnni_factor(
        plan.element, *((o.element, o.extend) for o in operands)
    )
    extents = plan.anchor.extents
    if factor == 1 or not all(isinstance(extents[axis], int) for axis in plan.k):
        return 1
    axes = k_runs(plan, factor)
    is_one_run = len(axes) == 1 or plan.vnni_factor == factor
    return factor if is_one_run and plan.a.stride_of(axes[-1].number) == 1 else 1


def k_runs(plan: ContractionPlan, factor: int) -> list[Axis]:
    """The axes of K, merged for the LHS; VNNI groups do not cross the last one."""
    extents = plan.anchor.extents
    axes = merge_axes(plan.k, extents, (plan.a,))
    innermost = extents[plan.k[-1]]
    is_whole = isinstance(innermost, int) and innermost % factor == 0
    if plan.vnni_factor == 1 or is_whole or len(plan.k) == 1:
        return axes
    *outer, last = plan.k
    before = [a for a in merge_axes(outer, extents, (plan.a,)) if a.extent != 1]
    return [*before, Axis(last, innermost)]


def for_k_runs(
    axes: Sequence[Axis],
    step_of: Callable[[int], IndexLike],
    body: Callable[[IndexLike, IndexLike, list[ir.Value]], list[ir.Value]],
    sums: list[ir.Value],
    offset: IndexLike = 0,
    number: IndexLike = 0,
) -> list[ir.Value]:
    """Loops over all axes of K but the last, around a run along the last one.

    Args:
        axes: the outer axes of K.
        step_of: stride of an axis in the LHS, in elements.
        body: emits a run: ``body(offset in the LHS row, run number, accumulators)``
            returns the new accumulators.
    """
    if not axes:
        return body(offset, number, sums)
    axis, *inner = axes

    def at(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        inner_offset = add(offset, multiply(k, step_of(axis.number)))
        count = add(multiply(number, axis.extent), k)
        return for_k_runs(inner, step_of, body, list(carried), inner_offset, count)

    return for_loop(0, axis.extent, 1, at, sums)


class DotProductGemmLoops(GemmLoops):
    """Emits the loops of a GEMM on a dot-product instruction."""

    @cached_property
    def dot(self) -> DotProduct:
        """The dot-product instruction."""
        lhs, rhs = self.plan.lhs, self.plan.rhs
        if isinstance(self.plan.element, ir.FloatType):
            return Bf16DotProduct(self.lanes, lhs.element)
        return Int8DotProduct(self.lanes, lhs, rhs)

    def panel(self, points: Mapping[int, IndexLike], panel_slice: PanelSlice) -> Panel:
        return DotProductPanel(self.tiling, points, panel_slice, self.dot, self.start())

    def alloc_panel(self) -> ir.Value:
        factor = self.dot.vnni_factor
        groups = ceil_div(self.tiling.depth, factor)
        width = factor * self.lanes * self.tile.vectors
        return alloc([multiply(groups, width)], self.plan.rhs.element)

    def sums(
        self,
        points: Mapping[int, IndexLike],
        count: int,
        panel: Panel,
        number: IndexLike,
    ) -> list[ir.Value]:
        assert isinstance(panel, DotProductPanel)
        width = panel.vectors
        starts, dot = panel.starts, self.dot
        totals = (starts or [self.start()] * width) * count
        totals += [] if starts else [_zero_sums(self.tiling)] * width
        first = self.a.offset(points)
        step = self.a.step(self.last.number)
        rows = [add(first, multiply(step, i)) for i in range(count)]

        *outer, last = k_runs(self.plan, dot.vnni_factor)
        depth = static_size(last.extent)
        groups = -(-depth // dot.vnni_factor)
        prologue = self._prefetch(panel, number)

        def run(
            offset: IndexLike, first_group: IndexLike, sums: list[ir.Value]
        ) -> list[ir.Value]:
            def step(
                group: IndexLike, count: int, sums: Sequence[ir.Value]
            ) -> list[ir.Value]:
                number = add(first_group, group)
                rhs = [panel.group(number, count, q) for q in range(width)]
                k = add(offset, multiply(group, dot.vnni_factor))
                lhs = [self._lhs_word(add(row, k), count) for row in rows]
                lhs += [] if starts else [dot.one()]
                pairs = [(word, vector) for word in lhs for vector in rhs]
                return [dot.add(t, *pair) for t, pair in zip(sums, pairs, strict=True)]

            return _for_groups(
                depth,
                dot.vnni_factor,
                step,
                sums,
                lambda group: prologue(add(first_group, group)),
            )

        totals = for_k_runs(
            outer,
            self.a.step,
            lambda offset, number, sums: run(offset, multiply(number, groups), sums),
            totals,
        )
        if starts:
            return totals
        column_sums = totals[-width:]
        return [
            dot.corrected(total, column_sums[number % width])
            for number, total in enumerate(totals[:-width])
        ]

    def _lhs_word(self, offset: IndexLike, count: int) -> ir.Value:
        """Broadcast ``count`` consecutive LHS elements, zero-padded to a word."""
        view, word = self.a.view, ir.IntegerType.get_signless(32)
        element = self.dot.element
        if count == self.dot.vnni_factor:
            group = op("vector.load", vector_type(count, element), view, index(offset))
            words = op("vector.bitcast", vector_type(1, word), group)
            first = ir.DenseI64ArrayAttr.get([0])
            return self.dot.row(
                op("vector.extract", word, words, static_position=first)
            )
        total = constant(0, word)
        narrow = ir.IntegerType.get_signless(element.width)
        for i in range(count):
            value = op("memref.load", element, view, index(add(offset, i)))
            bits = value if element == narrow else op("arith.bitcast", narrow, value)
            wide = op("arith.extui", word, bits)
            shifted = op("arith.shli", word, wide, constant(element.width * i, word))
            total = op("arith.ori", word, total, shifted)
        return self.dot.row(total)


@dataclass(frozen=True)
class _PackedGroups:
    """The VNNI groups of a panel in memory.

    Attributes:
        view: a flat buffer; begin: offset of the first group.
        step: elements per group; width: elements per vector.
    """

    view: ir.Value
    begin: IndexLike
    step: int
    width: int

    def offset(self, number: IndexLike, q: int) -> IndexLike:
        """Offset of vector ``q`` of a group."""
        return add(self.begin, add(multiply(number, self.step), q * self.width))


class DotProductPanel(Panel):
    """One panel of the RHS in VNNI layout.

    Attributes:
        starts: initial accumulators, with the correction of a flipped LHS; empty while the
            column sums for it are not known.
        groups: the groups in memory; None if the panel is not packed.
    """

    def __init__(
        self,
        tiling: PanelTiling,
        points: Mapping[int, IndexLike],
        panel_slice: PanelSlice,
        dot: DotProduct,
        start: ir.Value,
    ) -> None:
        super().__init__(tiling, points, panel_slice, dot.vnni_factor)
        self._dot = dot
        self._start = start
        is_prepacked = self.plan.vnni_factor != 1
        self.groups = self._prepacked_groups(panel_slice) if is_prepacked else None
        self.starts = [] if dot.is_flipped else [start] * panel_slice.vectors

    def _prepacked_groups(self, panel_slice: PanelSlice) -> _PackedGroups:
        """The groups in the layout of `tir-pack-constants`."""
        width = self._dot.vnni_factor * self.lanes
        # The last panel may use fewer vectors than are stored.
        step = width * panel_slice.full
        return _PackedGroups(self._flat.view, self._vector_offset(0), step, width)

    def group(self, number: IndexLike, count: int, q: int) -> ir.Value:
        """Vector ``q`` of a group of ``count`` k, zero-padded to the VNNI factor."""
        groups = self.groups
        if groups is not None:
            indices = [index(groups.offset(number, q))]
            return load_vector(groups.view, indices, groups.width, 1, None)
        k = multiply(number, self._dot.vnni_factor)
        rows = [self._load_vector(self._k_offset(add(k, i)), q) for i in range(count)]
        zero = broadcast(constant(0, self._dot.element), self.lanes)
        return interleave([*rows, *[zero] * (self._dot.vnni_factor - count)])

    def _k_offset(self, k: IndexLike) -> IndexLike:
        """Offset of a linearized k."""
        axes = self.tiling.k_axes
        points = unflatten(index(k), [axis.extent for axis in axes])
        total: IndexLike = 0
        for axis, point in zip(axes, points, strict=True):
            total = add(total, multiply(self.k_stride(axis.number), point))
        return total

    def pack(self, packed: ir.Value, begin: IndexLike = 0) -> None:
        """Copy the panel to scratch in VNNI layout, and compute column sums if needed.

        An im2col copies the panel k by k first, and then interleaves groups in place: a
        group takes the same memory before and after.
        """
        are_interleaved, self._begin = self.is_k_contiguous, begin
        if are_interleaved:
            self.pack_transposed(packed)
            self.read_packed(packed, begin)
        elif not self.plan.is_rhs_contiguous:
            super().pack(packed, begin)
        if not are_interleaved or not self.starts:
            self._interleave_groups(packed, are_interleaved)
        self.read_packed(packed, begin)

    def read_packed(self, packed: ir.Value, begin: IndexLike) -> None:
        """Read the panel from where :meth:`pack` has copied it."""
        self.groups = self._packed_groups(packed, begin)

    def _packed_groups(self, packed: ir.Value, begin: IndexLike) -> _PackedGroups:
        width = self._dot.vnni_factor * self.lanes
        return _PackedGroups(packed, begin, width * self.vectors, width)

    def _interleave_groups(self, packed: ir.Value, are_interleaved: bool) -> None:
        """Interleave the k of each group unless they are, and compute column sums."""
        width, depth, factor = self.vectors, self.tiling.depth, self._dot.vnni_factor
        dot, target = self._dot, self._packed_groups(packed, self._begin)

        def step(
            group: IndexLike, count: int, sums: Sequence[ir.Value]
        ) -> list[ir.Value]:
            vectors = [self.group(group, count, q) for q in range(width)]
            for q, value in enumerate(() if are_interleaved else vectors):
                indices = [index(target.offset(group, q))]
                store_vector(value, packed, indices, target.width, None)
            pairs = zip(sums, vectors, strict=True) if sums else ()
            return [dot.add(total, dot.one(), vector) for total, vector in pairs]

        zeros = [] if self.starts else [_zero_sums(self.tiling)] * width
        column_sums = _for_groups(static_size(depth), factor, step, zeros)
        self.starts = self.starts or [
            dot.corrected(self._start, sums) for sums in column_sums
        ]


def _zero_sums(tiling: PanelTiling) -> ir.Value:
    """A vector of zero accumulators."""
    return broadcast(constant(0, tiling.plan.element), tiling.lanes)


def _for_groups(
    depth: int,
    factor: int,
    step: Callable[[IndexLike, int, Sequence[ir.Value]], list[ir.Value]],
    carried: list[ir.Value],
    prologue: Callable[[ir.Value], None] = lambda group: None,
) -> list[ir.Value]:
    """Loop of ``step(group, its k, accumulators)`` over K by the VNNI factor, with a tail."""
    groups, tail = divmod(depth, factor)
    carried = unrolled_loop(
        groups, lambda group, sums: step(group, factor, sums), carried, prologue
    )
    return step(groups, tail, carried) if tail else carried
