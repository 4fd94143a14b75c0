"""Tiles of queries, keys and values in shared memory, filled by ``cp.async`` or by stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    extract_lane,
    index,
    op,
    strided_view,
    subtract,
)
from relax_mlir.schedules.divisibility import known_divisor
from relax_mlir.schedules.flat_buffers import FlatAccess
from relax_mlir.schedules.gpu.gemm_tile import TiledOperand
from relax_mlir.schedules.gpu.launch import ACCESS_BYTES, alloc_shared
from relax_mlir.schedules.gpu.mma import SharedStage

__all__ = ["SharedTile", "rebase_to_head"]


def rebase_to_head(flat: FlatAccess, head: Mapping[int, IndexLike]) -> FlatAccess:
    """Rebases a buffer with dynamic head strides to the start of a head.

    ``cp.async`` needs static strides within the head; the dynamic ones then only contribute to
    the base offset, which is 16-byte aligned if all of them are.

    Args:
        head: the head's indices, by the axes of the matmul.
    """
    vectors = 8 * ACCESS_BYTES // flat.view.type.element_type.width
    strides = [flat.step(axis) for axis in head]
    are_static = all(isinstance(step, int) for step in strides)
    if are_static or any(known_divisor(n) % vectors for n in (*strides, flat.constant)):
        return flat
    begin = flat.offset(head)
    size = op("memref.dim", ir.IndexType.get(), flat.view, index(0))
    view = strided_view(flat.view, [subtract(size, begin)], [1], begin)
    inner = {axis: step for axis, step in flat.steps.items() if axis not in head}
    return FlatAccess(view, inner, flat.blocks, 0)


@dataclass(frozen=True)
class SharedTile:
    """The tiles of an operand in shared memory.

    Attributes:
        memory: ``[stage, point, k]``, or ``[stage, k, point]`` if transposed.
    """

    operand: TiledOperand
    is_transposed: bool
    memory: ir.Value

    @staticmethod
    def of(
        operand: TiledOperand, stages: int, pad: int, *, is_transposed: bool
    ) -> SharedTile:
        """Allocates tiles of an operand, at the top of a launch.

        Args:
            stages: number of tiles; pad: elements of padding per row.
        """
        sizes = operand.size, operand.depth
        outer, inner = sizes[::-1] if is_transposed else sizes
        memory = alloc_shared([stages, outer, inner + pad], operand.element)
        return SharedTile(operand, is_transposed, memory)

    def at(self, stage: IndexLike) -> SharedStage:
        """The tile of a stage."""
        return SharedStage(self.memory, stage, self.is_transposed)

    def copy_async(
        self,
        outer: Mapping[int, IndexLike],
        first: IndexLike,
        step: IndexLike,
        thread: ir.Value,
        stage: IndexLike,
    ) -> None:
        """Emits the asynchronous copy of a tile, by :meth:`TiledOperand.copy_async`."""
        place = self.at(stage).at
        self.operand.copy_async(outer, first, step, thread, place, self.memory)

    def store(
        self,
        outer: Mapping[int, IndexLike],
        first: IndexLike,
        step: IndexLike,
        thread: ir.Value,
    ) -> None:
        """Emits the copy of a tile to the only stage, through registers."""
        vectors = self.operand.load(outer, first, step, thread)
        for value, (point, at) in self.operand.positioned(vectors, thread):
            self._store_vector(value, point, at)

    def _store_vector(self, value: ir.Value, point: IndexLike, step: IndexLike) -> None:
        is_vector = isinstance(value.type, ir.VectorType)
        if not is_vector or self.is_transposed != self.operand.is_k_major:
            name = "vector.store" if is_vector else "memref.store"
            op(name, None, value, self.memory, *self.at(0).at(point, step))
            return
        for n in range(value.type.shape[0]):
            one = extract_lane(value, n)
            along = (point, add(step, n)), (add(point, n), step)
            place = along[0 if self.operand.is_k_major else 1]
            op("memref.store", None, one, self.memory, *self.at(0).at(*place))
