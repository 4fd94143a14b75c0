"""One-dimensional grids with a thread for each point of an iteration domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    IndexLike,
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

_THREADS = 256  # per block


@dataclass(frozen=True)
class Grid:
    """A grid with one thread per point of an iteration domain.

    Attributes:
        extents: of the domain; body: emits the code of a thread for its point.
    """

    extents: Sequence[IndexLike]
    body: Callable[[list[IndexLike]], None]

    @property
    def blocks(self) -> IndexLike:
        """Number of thread blocks that cover the domain."""
        return ceil_div(product(self.extents), _THREADS)

    def write(self, block: IndexLike, number: ir.Value) -> None:
        """Emits the code of a thread, predicated if the last block is partial."""
        place = add(multiply(block, _THREADS), number)
        total = product(self.extents)

        def write() -> None:
            self.body(unflatten(index(place), self.extents))

        if isinstance(total, int) and total % _THREADS == 0:
            write()
        else:
            if_less(place, total, write)


def for_each_point(
    extents: Sequence[IndexLike], body: Callable[[list[IndexLike]], None]
) -> None:
    """Launches a thread for each point of a domain; ``body(point)`` emits its code."""
    launch_grids([Grid(extents, body)])


def launch_grids(grids: Sequence[Grid]) -> None:
    """Launches several grids as one: each gets a contiguous range of the thread blocks."""
    ends: list[IndexLike] = []
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
