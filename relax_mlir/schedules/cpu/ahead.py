"""Weights are brought nearer while those before them are at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import UNROLLED, Extent, add, div, multiply, prefetch

__all__ = ["Ahead"]

_LINE_BYTES = 64


@dataclass(frozen=True)
class Ahead:
    """Spreads the lines of what comes next over the tiles of the present panel of columns.

    Hardware follows a stream to the end of its page, and a panel is many pages; without
    this, what is not in the second cache comes at a fraction of the third one's speed.

    Attributes:
        view: the buffer of the columns, of one dimension.
        size: elements of a panel; vectors: how many it is wide.
        tiles: of rows, that work with each panel.
    """

    view: ir.Value
    size: int
    vectors: int
    tiles: int

    def begin(self, following: Extent, tile: Extent) -> Callable[[Extent], None]:
        """What one tile does at each turn of its sum.

        Args:
            following: the offset of what comes next, such as the next panel.
            tile: the number of this tile.
        """
        element_bytes = self.view.type.element_type.width // 8
        line = _LINE_BYTES // element_bytes
        lines = -(-UNROLLED * self.vectors // self.tiles)
        depth = self.size // (self.vectors * line)
        share = -(-depth // UNROLLED) * lines * line
        start = add(following, multiply(tile, share))

        def turn(step: Extent) -> None:
            place = add(start, multiply(div(step, UNROLLED), lines * line))
            for number in range(lines):
                prefetch(self.view, add(place, number * line))

        return turn
