"""What all kernels of contractions share: their axes, and what happens to the sums.

A block has a tile of the result at a time. Operands are read by their indices, so that
convolutions are products of windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mlir import ir

from relax_mlir.indexing import Linear, Part
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.contraction_axes import Axis, merged
from relax_mlir.schedules.contraction_plan import Factor, Plan, plan_contraction
from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    minimum,
    multiply,
    op,
    static,
    subtract,
)
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.gemm_parts import PART, PartialSums, part_count
from relax_mlir.schedules.gpu.gemm_tile import Side
from relax_mlir.schedules.gpu.launch import PROCESSORS, if_less
from relax_mlir.schedules.nest import Access, Kernel, point_count
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import Refusal

__all__ = [
    "Cut",
    "CutConfiguration",
    "GemmKernel",
    "accesses_by_row",
    "check_factors",
    "plan_gemm",
    "ranked",
]

_FEW_BLOCKS = PROCESSORS * 31 // 32  # fewer leave processors without work


@dataclass(frozen=True)
class Cut:
    """How a contraction is cut.

    Attributes:
        rows, columns: of a block's tile; depth: steps of the sum of a slice.
        threads: of a block.
        parts: of the sum, which blocks share.
    """

    rows: int
    columns: int
    depth: int
    threads: int
    parts: int = 1


def plan_gemm(kernel: Kernel) -> Plan:
    """The plan of a contraction whose operands are read by linear indices.

    Raises:
        Refusal: it is none.
    """
    padding, statements = split_padding(kernel)
    plan = plan_contraction(replace(kernel, statements=statements))
    if any(isinstance(form, Part) for form in (*plan.a.forms, *plan.b.forms)):
        raise Refusal("an operand is read by parts of an axis")
    extents = plan.anchor.extents
    columns = tuple(axis for axis in plan.n if extents[axis] != 1) or plan.n[-1:]
    plan = replace(plan, n=columns)
    if padding is None:
        return plan
    others = [plan.b, *(access for m in plan.maps for access in m.inputs)]
    is_read_once = all(access.buffer != padding.buffer for access in others)
    if padding.buffer != plan.a.buffer or not is_read_once:
        raise Refusal("what it pads are no rows, or not these alone")
    if float(padding.fill.value) != 0:
        raise Refusal("it pads with other numbers than 0")
    return replace(plan, rows_of=_padded(plan, padding))


def _padded(plan: Plan, padding: Padding) -> Factor:
    """The rows' operand, read where it is, and as zeros where it is not."""
    forms, edges = [], set()
    extents = plan.anchor.extents
    for dimension, form in enumerate(plan.a.forms):
        assert isinstance(form, Linear)  # plan_gemm has checked it
        shifted = Linear(form.coefficients, form.constant - padding.before[dimension])
        ends = [n * (static(extents[a]) - 1) for a, n in form.coefficients.items()]
        least, most = (
            shifted.constant + sum(choose(0, end) for end in ends)
            for choose in (min, max)
        )
        if least < 0 or most >= padding.sizes[dimension]:
            edges.add(dimension)
        forms.append(shifted)
    access = Access(padding.source, tuple(forms))
    return Factor(access, plan.rows_of.extend, frozenset(edges))


def check_factors(plan: Plan, elements: Sequence[str]) -> None:
    """Refuse factors that tensor cores do not multiply.

    Args:
        elements: that they do.

    Raises:
        Refusal: both are not of one of these, or are not summed in f32.
    """
    types = {str(f.element) for f in (plan.rows_of, plan.columns_of)}
    if str(plan.element) != "f32" or len(types) > 1 or not types <= {*elements}:
        raise Refusal(
            f"its factors are no pairs of {' or of '.join(elements)} summed in f32"
        )


@dataclass(frozen=True)
class CutConfiguration(Configuration):
    """How a kernel of a contraction is written.

    Attributes:
        parts: of the sum, which blocks share.
    """

    parts: int = field(default=1, kw_only=True)

    @property
    @abstractmethod
    def cut(self) -> Cut:
        """What is common to all of them."""


C = TypeVar("C", bound=CutConfiguration)


def ranked(plan: Plan, known: Sequence[C]) -> list[C]:
    """Configurations, the largest first, that with the first that busies all processors.

    Where none does, blocks share the terms of tiles.
    """
    extents = plan.anchor.extents
    rows, columns, outer = (
        point_count([extents[axis] for axis in axes])
        for axes in (plan.m, plan.n, plan.outer)
    )
    terms = [extents[axis] for axis in plan.k]
    # Memory for all parts of an open number of rows might be more than there is.
    are_known = all(isinstance(e, int) for e in extents)

    def tiles(made: C) -> int:
        down, across = -(-rows // made.cut.rows), -(-columns // made.cut.columns)
        return outer * down * across

    best = next((c for c in known if tiles(c) >= _FEW_BLOCKS), known[-1])
    others = [other for other in known if other != best]
    if are_known:
        turns = -(-point_count(terms) // best.cut.depth)
        parts = part_count(plan, tiles(best), turns)
        if parts > 1:
            return [replace(best, parts=parts), best, *others]
    return [best, *others]


def accesses_by_row(plan: Plan) -> list[Access]:
    """What is read and written by the rows of a contraction."""
    return [plan.a, *Epilogue(plan.anchor, plan.maps, plan.n, 1).accesses]


class GemmKernel(ABC):
    """Writes a contraction.

    Args:
        plan: the contraction; cut: how it is cut.
        lanes: neighbouring columns that a thread has the sums of.
    """

    def __init__(self, plan: Plan, cut: Cut, lanes: int) -> None:
        self.plan, self.cut = plan, cut
        extents = plan.anchor.extents
        self._outer = [Axis(i, extents[i]) for i in plan.outer]
        edge = plan.rows_of.edge_axes  # whose places are looked at one by one
        self._rows = Side(merged(plan.m, extents, accesses_by_row(plan), edge))
        self._columns = Side(merged(plan.n, extents, [plan.b]))
        self._summed = Side(merged(plan.k, extents, [plan.a, plan.b], edge))
        width = self._columns.extent
        is_even = isinstance(width, int) and width % lanes == 0
        self._epilogue: Epilogue | PartialSums = Epilogue(
            plan.anchor, plan.maps, plan.n, lanes if is_even else 1
        )
        self._lanes = lanes

    def write(self) -> None:
        """Write the launches."""
        if self.cut.parts == 1:
            self._write_tiles()
            return
        axes, lanes = [*self._outer, *self._row_axes], self._epilogue.lanes
        columns = Axis(self.plan.n[-1], self._columns.extent)  # as points name them
        sums = PartialSums(self.plan, axes, columns, self.cut.parts, lanes)
        self._epilogue = sums
        self._write_tiles()
        sums.add_up()

    @abstractmethod
    def _write_tiles(self) -> None:
        """Launch what computes all tiles, or all parts of all tiles."""

    @property
    def _row_axes(self) -> Sequence[Axis]:
        """The axes of rows, as points of results name them."""
        return self._rows.axes

    def _share(self, at: Mapping[int, Extent]) -> tuple[Extent, Extent]:
        """The first slice of a part of the sum, and how many it has."""
        turns = ceil_div(self._summed.extent, self.cut.depth)
        if self.cut.parts == 1:
            return 0, turns
        per_part = ceil_div(turns, self.cut.parts)
        first = multiply(at[PART], per_part)
        return first, minimum(subtract(turns, first), per_part)

    @property
    def tiles(self) -> list[Extent]:
        """How many there are: along the axes of separate products, of columns, of rows."""
        return [
            *(axis.extent for axis in self._outer),
            ceil_div(self._columns.extent, self.cut.columns),
            ceil_div(self._rows.extent, self.cut.rows),
        ]

    def _finish_vector(
        self, at: Mapping[int, Extent], column: Extent, value: ir.Value
    ) -> None:
        """Write neighbouring results; one by one where some may lie outside."""
        axis, lanes = self.plan.n[-1], self._epilogue.lanes
        for lane in range(0, self._lanes, lanes):
            place = add(column, lane)
            part = value
            if lanes == 1:
                where = ir.DenseI64ArrayAttr.get([lane])
                element = self.plan.element
                part = op("vector.extract", element, value, static_position=where)

            def store(part: ir.Value = part, place: Extent = place) -> None:
                self._epilogue.store(part, {**at, axis: place}, None)

            if_less(place, self._columns.extent, store)
