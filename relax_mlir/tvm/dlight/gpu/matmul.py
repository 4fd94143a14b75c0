"""Matmul rule: GEMM with shared-memory and register tiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.analysis.contraction import AxisRoles
from relax_mlir.objects.stmt.statements import Block
from relax_mlir.tvm.dlight.blocks import normalize_prim_func, region_iter_vars
from relax_mlir.tvm.dlight.inlining import inline_consumers, inline_producers
from relax_mlir.tvm.dlight.rule import GuardedRule
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir.schedule import BlockRV, Schedule

__all__ = ["Matmul"]

_THREADS = 16  # per thread block, along M and along N
_TILE = 4  # rows and columns of the register tile of a thread
_DEPTH = 16  # K extent of a shared-memory tile
_VECTOR = 4  # elements per vectorized load


class Matmul(GuardedRule):
    """(Batched) matmul with injective producers and consumers.

    A thread block computes one tile of the result: it loads tiles of both operands into
    shared memory, and each thread accumulates a register tile. Sizes that are not
    multiples of the tile sizes are padded with zeros when tiles are loaded.

    Source: V. Volkov and J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra"
    (2008).
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        normalized = normalize_prim_func(sch)
        if normalized is None:
            return False
        reductions = [i for i in normalized if i.is_reduction()]
        if len(reductions) != 1 or not all(
            i.is_injective() for i in normalized if i not in reductions
        ):
            return False
        block = reductions[0].block_rv
        block_stmt = sch.get(block)
        axes = _axes(block_stmt)
        if axes is None:
            return False
        last = [region_iter_vars(block_stmt, read)[-1] for read in block_stmt.reads]
        _reindex(sch, block, axes)
        tile = _THREADS * _TILE
        batch = [1] if axes[0] else []
        sch.pad_einsum(block, [*batch, tile, tile, _DEPTH])
        _schedule(sch, block, [last[0] in axes[1], last[1] in axes[3]])
        return True


def _axes(block: Block) -> list[list[int]] | None:
    """Iteration variables of batch, M, N and K; None if the block is not a matmul."""
    if len(block.reads) != 2 or len(block.writes) != 1:
        return None
    lhs, rhs, result = (
        region_iter_vars(block, region) for region in (*block.reads, *block.writes)
    )
    kinds = "".join(
        "R" if axis.iter_type == axis.CommReduce else "S" for axis in block.iter_vars
    )
    if {axis for axis, kind in enumerate(kinds) if kind == "S"} != set(result):
        return None
    roles = AxisRoles.of(kinds, lhs, rhs)
    if roles.others or not (roles.m and roles.n and roles.k):
        return None
    return [list(axes) for axes in (roles.batch, roles.m, roles.n, roles.k)]


def _reindex(sch: Schedule, block: BlockRV, axes: Sequence[Sequence[int]]) -> None:
    """Rewrite the block to the axes batch, M, N, K, and its buffers to matching layouts.

    Raises:
        ScheduleError: the indices of the block do not allow it.
    """
    extents = [a.dom.extent for a in sch.get(block).iter_vars]
    operands = (
        (("read", 0), (0, 1, 3)),
        (("read", 1), (0, 3, 2)),
        (("write", 0), (0, 1, 2)),
    )
    for buffer_index, roles in operands:
        copy = sch.reindex(block, buffer_index)
        groups = [axes[k] for k in roles if axes[k]]
        fuse = _fusion_map(
            sorted(n for group in groups for n in group), groups, extents
        )
        sch.transform_layout(
            copy, ("write" if buffer_index[0] == "read" else "read", 0), fuse
        )
        sch.transform_block_layout(copy, fuse)
    groups = [group for group in axes if group]
    sch.transform_block_layout(block, _fusion_map(range(len(extents)), groups, extents))


def _fusion_map(
    order: Sequence[int], groups: Sequence[Sequence[int]], extents: Sequence[Any]
) -> Callable[..., list[Any]]:
    """The index map that fuses axes, given in ``order``, into one axis per group."""

    def fuse(*points: Any) -> list[Any]:  # Any: expressions
        by_axis = dict(zip(order, points, strict=True))
        fused = []
        for first, *rest in groups:
            total = by_axis[first]
            for axis in rest:
                total = total * extents[axis] + by_axis[axis]
            fused.append(total)
        return fused

    return fuse


def _schedule(sch: Schedule, block: BlockRV, is_transposed: Sequence[bool]) -> None:
    """Tile, bind and cache the loops of the matmul.

    Args:
        is_transposed: per operand, whether the first axis of its tile is contiguous in
            memory.
    """
    *batch, rows, columns, k_loop = sch.get_loops(block)
    by, ty, row = sch.split(rows, [None, _THREADS, _TILE])
    bx, tx, column = sch.split(columns, [None, _THREADS, _TILE])
    step, k = sch.split(k_loop, [None, _DEPTH])
    sch.reorder(*batch, by, bx, ty, tx, step, k, row, column)
    for loop, thread in zip((by, bx, ty, tx), _AXES, strict=True):
        sch.bind(loop, thread)
    for loop in batch:
        sch.bind(loop, "blockIdx.z")
    result = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(result, tx, preserve_unit_loops=True)
    for number, transposed in enumerate(is_transposed):
        tile = sch.cache_read(block, number, "shared")
        sch.compute_at(tile, step, preserve_unit_loops=True)
        first, second = sch.get_loops(tile)[-2:]
        if transposed:
            sch.reorder(second, first)
        _load_cooperatively(sch, tile)
        inline_producers(sch, tile)
    inline_consumers(sch, result)
    sch.unroll(row)
    sch.unroll(column)
    sch.decompose_reduction(block, step)


_AXES = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")


def _load_cooperatively(sch: Schedule, tile: BlockRV) -> None:
    """Cooperatively load a tile with coalesced, vectorized accesses."""
    elements = sch.fuse(*sch.get_loops(tile)[-2:])
    _, ty, tx, lane = sch.split(elements, [None, _THREADS, _THREADS, _VECTOR])
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    sch.vectorize(lane)
