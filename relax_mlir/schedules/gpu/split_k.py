"""Split-K: blocks share the K range of a tile; a second launch adds the partial results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    alloc,
    index,
    multiply,
    op,
    product,
    static_size,
    vector_type,
)
from relax_mlir.schedules.contraction_axes import Axis
from relax_mlir.schedules.epilogue import Epilogue
from relax_mlir.schedules.gpu.grid import for_each_point
from relax_mlir.schedules.gpu.launch import SM_COUNT
from relax_mlir.schedules.kernel_view import point_count
from relax_mlir.schedules.match_contraction import ContractionPlan

__all__ = ["SPLIT", "SplitKWorkspace", "split_k_count"]

SPLIT = -1  # number of the split axis, next to those of the contraction
_LANES = 4  # vector width of the reduction launch
_MIN_K_TILES = 4  # of a split: fewer do not fill the pipeline
_MAX_SPLITS = 16


def split_k_count(plan: ContractionPlan, tiles: int, k_tiles: IndexLike) -> int:
    """Number of K splits, so that all SMs get work; 1 for none.

    Args:
        tiles: of the result; k_tiles: of the K dimension.
    """
    columns = [plan.anchor.extents[axis] for axis in plan.n]
    is_even = all(isinstance(n, int) for n in columns)
    is_even = is_even and point_count(columns) % _LANES == 0
    if not isinstance(k_tiles, int) or not is_even or not plan.anchor.starts_from_zero:
        return 1
    splits = min(SM_COUNT // max(1, tiles), k_tiles // _MIN_K_TILES, _MAX_SPLITS)
    if splits < 2:
        return 1
    per_split = -(-k_tiles // splits)
    return -(-k_tiles // per_split)  # no split is empty


class SplitKWorkspace:
    """Workspace of partial results, which replaces the epilogue of a split-K kernel.

    Args:
        axes: of the batch and of M; columns: the N axis.
        count: of splits; lanes: vector width of the stores.
    """

    def __init__(
        self,
        plan: ContractionPlan,
        axes: Sequence[Axis],
        columns: Axis,
        count: int,
        lanes: int,
    ) -> None:
        self.lanes = lanes
        self._plan, self._axes, self._columns = plan, axes, columns
        self._count = count
        sizes = [axis.extent for axis in (*axes, columns)]
        self._size = product(sizes)
        self._memory = alloc([multiply(self._size, count)], plan.element)

    def store(
        self, value: ir.Value, at: Mapping[int, IndexLike], mask: ir.Value | None
    ) -> None:
        """Stores a vector of a partial result; replaces :meth:`Epilogue.store`."""
        assert mask is None
        place = add(multiply(at[SPLIT], self._size), self._place(at))
        name = (
            "vector.store" if isinstance(value.type, ir.VectorType) else "memref.store"
        )
        op(name, None, value, self._memory, index(place))

    def _place(self, at: Mapping[int, IndexLike]) -> IndexLike:
        place: IndexLike = 0
        for axis in (*self._axes, self._columns):
            place = add(multiply(place, axis.extent), at[axis.number])
        return place

    def reduce(self) -> None:
        """Emits the launch that adds the partial results, in order, and runs the epilogue."""
        plan, axes = self._plan, self._axes
        type_ = vector_type(_LANES, plan.element)
        epilogue = Epilogue(plan.anchor, plan.maps, plan.n, _LANES)
        name = "arith.addf" if isinstance(plan.element, ir.FloatType) else "arith.addi"
        groups = static_size(self._columns.extent) // _LANES

        def write(points: list[IndexLike]) -> None:
            at = {a.number: p for a, p in zip(axes, points[:-1], strict=True)}
            at[self._columns.number] = multiply(points[-1], _LANES)
            place = self._place(at)
            partials = [
                op("vector.load", type_, self._memory, index(add(place, first)))
                for first in (multiply(self._size, n) for n in range(self._count))
            ]
            total = partials[0]
            for partial_result in partials[1:]:
                total = op(name, type_, total, partial_result)
            epilogue.store(total, at, None)

        for_each_point([*(axis.extent for axis in axes), groups], write)
