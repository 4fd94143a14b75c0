"""Matmul: products of matrices in tiles of shared memory and of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.dlight.blocks import axes_in, normalize_prim_func
from relax_mlir.dlight.inlining import inline_consumers, inline_producers
from relax_mlir.dlight.rule import GuardedRule
from relax_mlir.objects.stmt import Block
from relax_mlir.relax.target import Target
from relax_mlir.tir.schedule import BlockRV, Schedule

__all__ = ["Matmul"]

_THREADS = 16  # of a block, along rows and along columns
_TILE = 4  # rows and columns of a thread
_DEPTH = 16  # terms of a tile in shared memory
_VECTOR = 4  # elements that a thread fetches at once


class Matmul(GuardedRule):
    """A sum of products of two matrices, maybe a batch of them, and what is around it.

    A block of threads has a tile of the result; it fetches tiles of both factors into
    shared memory, and each thread multiplies parts of them into its registers. Sizes that
    are no multiples of tiles are padded: zeros are fetched for what is not there.

    Source: V. Volkov and J. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra"
    (2008).
    """

    def schedule(self, sch: Schedule, target: Target) -> bool:
        """See :class:`GuardedRule`."""
        normalized = normalize_prim_func(sch)
        if normalized is None:
            return False
        sums = [i for i in normalized if i.is_reduction()]
        if len(sums) != 1 or not all(
            i.is_injective() for i in normalized if i not in sums
        ):
            return False
        block = sums[0].block_rv
        statement = sch.get(block)
        axes = _axes(statement)
        if axes is None:
            return False
        last = [axes_in(statement, read)[-1] for read in statement.reads]
        _reindex(sch, block, axes)
        tile = _THREADS * _TILE
        batch = [1] if axes[0] else []
        sch.pad_einsum(block, [*batch, tile, tile, _DEPTH])
        _schedule(sch, block, [last[0] in axes[1], last[1] in axes[3]])
        return True


def _axes(block: Block) -> list[list[int]] | None:
    """Axes of batches, rows, columns and terms; None of what is no such product."""
    if len(block.reads) != 2 or len(block.writes) != 1:
        return None
    touched = [axes_in(block, region) for region in (*block.reads, *block.writes)]
    kinds: dict[tuple[bool, ...], list[int]] = {key: [] for key in _KINDS}
    for number, axis in enumerate(block.iter_vars):
        key = tuple(number in axes for axes in touched)
        is_sum = axis.iter_type == axis.CommReduce
        if key not in kinds or is_sum != (not key[2]):
            return None
        kinds[key].append(number)
    found = list(kinds.values())
    return found if all(found[1:]) else None


# Whether left factor, right factor and product know an axis.
_KINDS = (
    (True, True, True),
    (True, False, True),
    (False, True, True),
    (True, True, False),
)


def _reindex(sch: Schedule, block: BlockRV, axes: Sequence[Sequence[int]]) -> None:
    """Give the product the axes batch, row, column and term, and its buffers theirs.

    Raises:
        ScheduleError: its indices do not allow it.
    """
    extents = [a.dom.extent for a in sch.get(block).iter_vars]
    places = (
        (("read", 0), (0, 1, 3)),
        (("read", 1), (0, 3, 2)),
        (("write", 0), (0, 1, 2)),
    )
    for place, kinds in places:
        copy = sch.reindex(block, place)
        groups = [axes[k] for k in kinds if axes[k]]
        fuse = _fusing(sorted(n for group in groups for n in group), groups, extents)
        sch.transform_layout(copy, ("write" if place[0] == "read" else "read", 0), fuse)
        sch.transform_block_layout(copy, fuse)
    groups = [group for group in axes if group]
    sch.transform_block_layout(block, _fusing(range(len(extents)), groups, extents))


def _fusing(
    order: Sequence[int], groups: Sequence[Sequence[int]], extents: Sequence[Any]
) -> Callable[..., list[Any]]:
    """The map from axes in an order to one axis for each group of them."""

    def fuse(*points: Any) -> list[Any]:  # Any: terms
        by_axis = dict(zip(order, points, strict=True))
        fused = []
        for first, *rest in groups:
            total = by_axis[first]
            for axis in rest:
                total = total * extents[axis] + by_axis[axis]
            fused.append(total)
        return fused

    return fuse


def _schedule(sch: Schedule, block: BlockRV, is_turned: Sequence[bool]) -> None:
    """Write the loops.

    Args:
        is_turned: of each factor, whether neighbours along the first axis of its tile
            lie side by side.
    """
    *batch, rows, columns, terms = sch.get_loops(block)
    by, ty, row = sch.split(rows, [None, _THREADS, _TILE])
    bx, tx, column = sch.split(columns, [None, _THREADS, _TILE])
    step, term = sch.split(terms, [None, _DEPTH])
    sch.reorder(*batch, by, bx, ty, tx, step, term, row, column)
    for loop, thread in zip((by, bx, ty, tx), _AXES, strict=True):
        sch.bind(loop, thread)
    for loop in batch:
        sch.bind(loop, "blockIdx.z")
    result = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(result, tx, preserve_unit_loops=True)
    for number, turned in enumerate(is_turned):
        tile = sch.cache_read(block, number, "shared")
        sch.compute_at(tile, step, preserve_unit_loops=True)
        first, second = sch.get_loops(tile)[-2:]
        if turned:
            sch.reorder(second, first)
        _fetch(sch, tile)
        inline_producers(sch, tile)
    inline_consumers(sch, result)
    sch.unroll(row)
    sch.unroll(column)
    sch.decompose_reduction(block, step)


_AXES = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")


def _fetch(sch: Schedule, tile: BlockRV) -> None:
    """Let all threads of a block fetch a tile, neighbours what lies side by side."""
    points = sch.fuse(*sch.get_loops(tile)[-2:])
    _, ty, tx, lane = sch.split(points, [None, _THREADS, _THREADS, _VECTOR])
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    sch.vectorize(lane)
