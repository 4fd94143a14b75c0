"""Software prefetch of the next weight panel while the current one is in use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import (
    UNROLL_FACTOR,
    IndexLike,
    add,
    div,
    multiply,
    prefetch,
)

__all__ = ["Prefetch"]

_LINE_BYTES = 64


@dataclass(frozen=True)
class Prefetch:
    """Software prefetch of a panel, distributed over the register tiles of the current one.

    Hardware prefetchers stop at the end of a page, and a panel spans many pages. Without
    software prefetch, data from L3 arrives at a fraction of its bandwidth.

    Attributes:
        view: the packed weights, of one dimension.
        size: elements of a panel; vectors: width of a panel in vectors.
        tiles: register tiles that use each panel.
    """

    view: ir.Value
    size: int
    vectors: int
    tiles: int

    def begin(
        self, following: IndexLike, tile: IndexLike
    ) -> Callable[[IndexLike], None]:
        """The prefetches of one register tile, as a prologue of its unrolled K loop.

        Args:
            following: offset of the data to prefetch, such as the next panel.
            tile: number of the register tile.
        """
        element_bytes = self.view.type.element_type.width // 8
        line = _LINE_BYTES // element_bytes
        lines = -(-UNROLL_FACTOR * self.vectors // self.tiles)
        depth = self.size // (self.vectors * line)
        share = -(-depth // UNROLL_FACTOR) * lines * line
        start = add(following, multiply(tile, share))

        def prologue(step: IndexLike) -> None:
            offset = add(start, multiply(div(step, UNROLL_FACTOR), lines * line))
            for number in range(lines):
                prefetch(self.view, add(offset, number * line))

        return prologue
