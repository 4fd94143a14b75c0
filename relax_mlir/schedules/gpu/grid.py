"""Points of a domain, one or a few for each thread of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import (
    Extent,
    add,
    ceil_div,
    index,
    multiply,
    product,
    subtract,
    unflatten,
)
from relax_mlir.schedules.gpu.launch import if_less, launch

__all__ = ["Grid", "for_each_point", "launch_grids"]

_THREADS = 256  # of a block


@dataclass(frozen=True)
class Grid:
    """A thread for each point of a domain.

    Attributes:
        extents: of the domain; body: what a thread does at a point.
    """

    extents: Sequence[Extent]
    body: Callable[[list[Extent]], None]

    @property
    def blocks(self) -> Extent:
        """How many blocks have all of its threads."""
        return ceil_div(product(self.extents), _THREADS)

    def write(self, block: Extent, number: ir.Value) -> None:
        """What a thread of a block of the grid does."""
        place = add(multiply(block, _THREADS), number)
        total = product(self.extents)

        def write() -> None:
            self.body(unflatten(index(place), self.extents))

        if isinstance(total, int) and total % _THREADS == 0:
            write()
        else:
            if_less(place, total, write)


def for_each_point(
    extents: Sequence[Extent], body: Callable[[list[Extent]], None]
) -> None:
    """Launch a thread for each point of a domain; ``body(points)`` is what it does."""
    launch_grids([Grid(extents, body)])


def launch_grids(grids: Sequence[Grid]) -> None:
    """Launch the threads of some grids at once: of the blocks, each has its own."""
    ends: list[Extent] = []
    for grid in grids:
        ends.append(add(ends[-1] if ends else 0, grid.blocks))

    def thread(block: ir.Value, number: ir.Value) -> None:
        def write(part: int) -> None:
            begin = ends[part - 1] if part else 0
            grids[part].write(subtract(block, begin), number)

        def choose(part: int) -> None:
            if part + 1 == len(grids):
                write(part)
            else:
                if_less(
                    block, ends[part], lambda: write(part), lambda: choose(part + 1)
                )

        choose(0)

    launch(ends[-1], _THREADS, thread)
