"""Base of all GEMM kernels: matching, tile sizes, M/N/K dimensions, split-K, epilogue.

A thread block computes a tile of the output at a time. Operands are read by their access
maps, so that convolutions are implicit GEMMs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mlir import ir

from relax_mlir.analysis.index_maps import TiledIndex
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    ceil_div,
    minimum,
    multiply,
    op,
    static_size,
    subtract,
)
from relax_mlir.schedules.configuration import Configuration
from relax_mlir.schedules.contraction_axes import Axis, merge_axes
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.gemm_tile import GemmDim
from relax_mlir.schedules.gpu.launch import SM_COUNT, if_less
from relax_mlir.schedules.gpu.split_k import SPLIT, SplitKWorkspace, split_k_count
from relax_mlir.schedules.kernel_view import Access, Kernel, point_count
from relax_mlir.schedules.match_contraction import (
    ContractionOperand,
    ContractionPlan,
    plan_contraction,
)
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.intervals import contains

__all__ = [
    "GemmKernel",
    "Tiling",
    "TilingConfiguration",
    "check_operand_types",
    "plan_gemm",
    "rank_gemm_configurations",
    "row_accesses",
]

_MIN_BLOCKS = SM_COUNT * 31 // 32  # fewer leave SMs idle


@dataclass(frozen=True)
class Tiling:
    """Tile sizes of a GEMM.

    Attributes:
        rows, columns: of a block tile; depth: of a K tile.
        threads: of a block.
        split_k: number of blocks that share the K dimension of a tile.
    """

    rows: int
    columns: int
    depth: int
    threads: int
    split_k: int = 1


def plan_gemm(kernel: Kernel) -> ContractionPlan:
    """Matches a contraction whose operands have affine access maps.

    A fused zero-pad of the left operand becomes implicit padding.

    Raises:
        NotApplicable: it is not such a contraction.
    """
    padding, statements = split_padding(kernel)
    plan = plan_contraction(replace(kernel, statements=statements))
    if any(isinstance(form, TiledIndex) for form in (*plan.a.forms, *plan.b.forms)):
        raise NotApplicable("an operand is indexed by floordiv or mod of an axis")
    extents = plan.anchor.extents
    columns = tuple(axis for axis in plan.n if extents[axis] != 1) or plan.n[-1:]
    plan = replace(plan, n=columns)
    if padding is None:
        return plan
    others = [plan.b, *(access for m in plan.maps for access in m.inputs)]
    is_read_once = all(access.buffer != padding.buffer for access in others)
    if padding.buffer != plan.a.buffer or not is_read_once:
        raise NotApplicable("it pads something other than its left operand")
    if float(padding.fill.value) != 0:
        raise NotApplicable("its padding is not zero")
    return replace(plan, lhs=_padded(plan, padding))


def _padded(plan: ContractionPlan, padding: Padding) -> ContractionOperand:
    """The left operand with implicit padding: predicated loads of the unpadded buffer."""
    forms, edges = [], set()
    extents = plan.anchor.extents
    for dimension, form in enumerate(plan.a.forms):
        assert isinstance(form, AffineForm)  # plan_gemm has checked it
        shifted = form.shifted(-padding.before[dimension])
        reached = shifted.range_over(lambda axis: (0, static_size(extents[axis]) - 1))
        if not contains((0, padding.sizes[dimension] - 1), reached):
            edges.add(dimension)
        forms.append(shifted)
    access = Access(padding.source, tuple(forms))
    return ContractionOperand(access, plan.lhs.extend, frozenset(edges))


def check_operand_types(plan: ContractionPlan, elements: Sequence[str]) -> None:
    """Checks that tensor cores support the operand types.

    Args:
        elements: supported types.

    Raises:
        NotApplicable: the operands are not both of one of them, or do not accumulate in f32.
    """
    types = {str(f.element) for f in (plan.lhs, plan.rhs)}
    if str(plan.element) != "f32" or len(types) > 1 or not types <= {*elements}:
        raise NotApplicable(
            f"its operands are not both {' or '.join(elements)}, accumulated in f32"
        )


@dataclass(frozen=True)
class TilingConfiguration(Configuration):
    """Configuration of a GEMM kernel.

    Attributes:
        split_k: number of blocks that share the K dimension of a tile.
    """

    split_k: int = field(default=1, kw_only=True)

    @property
    @abstractmethod
    def tiling(self) -> Tiling:
        """The tile sizes."""


C = TypeVar("C", bound=TilingConfiguration)


def rank_gemm_configurations(plan: ContractionPlan, known: Sequence[C]) -> list[C]:
    """Ranks configurations: first the largest tiles that occupy all SMs.

    If none does, the first is the smallest tiles with split-K.

    Args:
        known: largest tiles first.
    """
    extents = plan.anchor.extents
    rows, columns, outer = (
        point_count([extents[axis] for axis in axes])
        for axes in (plan.m, plan.n, plan.outer)
    )
    k = [extents[axis] for axis in plan.k]
    # With dynamic extents, the split-K workspace might not fit in memory.
    are_known = all(isinstance(e, int) for e in extents)

    def tiles(config: C) -> int:
        down, across = (
            -(-rows // config.tiling.rows),
            -(-columns // config.tiling.columns),
        )
        return outer * down * across

    best = next((c for c in known if tiles(c) >= _MIN_BLOCKS), known[-1])
    others = [other for other in known if other != best]
    if are_known:
        k_tiles = -(-point_count(k) // best.tiling.depth)
        split_k = split_k_count(plan, tiles(best), k_tiles)
        if split_k > 1:
            return [replace(best, split_k=split_k), best, *others]
    return [best, *others]


def row_accesses(plan: ContractionPlan) -> list[Access]:
    """The accesses that depend on the M axes: left operand, epilogue inputs, result."""
    return [plan.a, *Epilogue(plan.anchor, plan.maps, plan.n, 1).accesses]


class GemmKernel(ABC):
    """Emitter of a GEMM.

    Args:
        plan: the contraction; tiling: tile sizes.
        lanes: adjacent columns of an accumulator vector of a thread.
    """

    def __init__(self, plan: ContractionPlan, tiling: Tiling, lanes: int) -> None:
        self.plan, self.tiling = plan, tiling
        extents = plan.anchor.extents
        self._batch = [Axis(i, extents[i]) for i in plan.outer]
        edge = plan.lhs.padded_axes  # not fused: their loads are predicated
        self._rows = GemmDim(merge_axes(plan.m, extents, row_accesses(plan), edge))
        self._columns = GemmDim(merge_axes(plan.n, extents, [plan.b]))
        self._k = GemmDim(merge_axes(plan.k, extents, [plan.a, plan.b], edge))
        width = self._columns.extent
        is_even = isinstance(width, int) and width % lanes == 0
        self._epilogue: Epilogue | SplitKWorkspace = Epilogue(
            plan.anchor, plan.maps, plan.n, lanes if is_even else 1
        )
        self._lanes = lanes

    def write(self) -> None:
        """Emits the launches."""
        if self.tiling.split_k == 1:
            self._write_tiles()
            return
        axes, lanes = [*self._batch, *self._row_axes], self._epilogue.lanes
        # The fused N dimension, by the number of its last axis.
        columns = Axis(self.plan.n[-1], self._columns.extent)
        workspace = SplitKWorkspace(
            self.plan, axes, columns, self.tiling.split_k, lanes
        )
        self._epilogue = workspace
        self._write_tiles()
        workspace.reduce()

    @abstractmethod
    def _write_tiles(self) -> None:
        """Emits the launch that computes all tiles, or all K splits of them."""

    @property
    def _row_axes(self) -> Sequence[Axis]:
        """The M axes by which the epilogue is indexed."""
        return self._rows.axes

    def _k_range(self, at: Mapping[int, IndexLike]) -> tuple[IndexLike, IndexLike]:
        """The first K tile of a split, and the number of its K tiles."""
        k_tiles = ceil_div(self._k.extent, self.tiling.depth)
        if self.tiling.split_k == 1:
            return 0, k_tiles
        per_split = ceil_div(k_tiles, self.tiling.split_k)
        first = multiply(at[SPLIT], per_split)
        return first, minimum(subtract(k_tiles, first), per_split)

    @property
    def tiles(self) -> list[IndexLike]:
        """Numbers of tiles: along the batch axes, N and M."""
        return [
            *(axis.extent for axis in self._batch),
            ceil_div(self._columns.extent, self.tiling.columns),
            ceil_div(self._rows.extent, self.tiling.rows),
        ]

    def _write_vector(
        self, at: Mapping[int, IndexLike], column: IndexLike, value: ir.Value
    ) -> None:
        """Emits the epilogue of a vector; per element if it may cross the edge."""
        axis, lanes = self.plan.n[-1], self._epilogue.lanes
        for lane in range(0, self._lanes, lanes):
            place = add(column, lane)
            result = value
            if lanes == 1:
                where = ir.DenseI64ArrayAttr.get([lane])
                element = self.plan.element
                result = op("vector.extract", element, value, static_position=where)

            def store(result: ir.Value = result, place: IndexLike = place) -> None:
                self._epilogue.store(result, {**at, axis: place}, None)

            if_less(place, self._columns.extent, store)
