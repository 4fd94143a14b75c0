"""Queries, keys and values of attention in the shared memory of a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    index,
    lane_of,
    op,
    strided_view,
    subtract,
)
from relax_mlir.schedules.flat import Flat
from relax_mlir.schedules.gpu.gemm_tile import Operand
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, alloc_shared
from relax_mlir.schedules.gpu.mma import Slice
from relax_mlir.schedules.multiples import multiple_of

__all__ = ["SharedTile", "of_head"]


def of_head(flat: Flat, head: Mapping[int, Extent]) -> Flat:
    """What of a buffer begins with a head, where it is not known how far heads are apart.

    Copies need known steps; those from head to head then tell no more than where it begins,
    which is a multiple of 16 bytes if all of them are.

    Args:
        head: in the axes of the buffer's product.
    """
    pieces = 8 * ACCESS_BYTES // flat.view.type.element_type.width
    steps = [flat.step(axis) for axis in head]
    are_known = all(isinstance(step, int) for step in steps)
    if are_known or any(multiple_of(n) % pieces for n in (*steps, flat.constant)):
        return flat
    begin = flat.offset(head)
    size = op("memref.dim", ir.IndexType.get(), flat.view, index(0))
    view = strided_view(flat.view, [subtract(size, begin)], [1], begin)
    inner = {axis: step for axis, step in flat.steps.items() if axis not in head}
    return Flat(view, inner, flat.blocks, 0)


@dataclass(frozen=True)
class SharedTile:
    """Where tiles of an operand are.

    Attributes:
        memory: ``[stage, point, step of the sum]``, or with the last two turned.
    """

    operand: Operand
    is_turned: bool
    memory: ir.Value

    @staticmethod
    def of(operand: Operand, stages: int, pad: int, *, is_turned: bool) -> SharedTile:
        """Room for tiles of an operand, at the top of a launch.

        Args:
            stages: how many; pad: elements behind a row.
        """
        sizes = operand.size, operand.depth
        outer, inner = sizes[::-1] if is_turned else sizes
        memory = alloc_shared([stages, outer, inner + pad], operand.element)
        return SharedTile(operand, is_turned, memory)

    def at(self, stage: Extent) -> Slice:
        """One of the tiles."""
        return Slice(self.memory, stage, self.is_turned)

    def copy(
        self,
        outer: Mapping[int, Extent],
        first: Extent,
        step: Extent,
        thread: ir.Value,
        stage: Extent,
    ) -> None:
        """Begin to copy a tile, as :meth:`Operand.copy` does."""
        place = self.at(stage).at
        self.operand.copy(outer, first, step, thread, place, self.memory)

    def put(
        self,
        outer: Mapping[int, Extent],
        first: Extent,
        step: Extent,
        thread: ir.Value,
    ) -> None:
        """Write a tile to the only stage, by way of registers."""
        pieces = self.operand.read(outer, first, step, thread)
        for value, (point, at) in self.operand.pieces(pieces, thread):
            self._store(value, point, at)

    def _store(self, value: ir.Value, point: Extent, step: Extent) -> None:
        is_vector = isinstance(value.type, ir.VectorType)
        if not is_vector or self.is_turned != self.operand.is_along_sum:
            name = "vector.store" if is_vector else "memref.store"
            op(name, None, value, self.memory, *self.at(0).at(point, step))
            return
        for n in range(value.type.shape[0]):
            one = lane_of(value, n)
            along = (point, add(step, n)), (add(point, n), step)
            place = along[0 if self.operand.is_along_sum else 1]
            op("memref.store", None, one, self.memory, *self.at(0).at(*place))
