"""How convolutions run over channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["Channels", "Point"]


@dataclass(frozen=True)
class Point:
    """One product of a convolution.

    Attributes:
        n: the image; spatial: the place in the result; taps: in the kernel.
        read, written: channels of x and y; ..._in_group: counted within their group.
    """

    n: Index
    spatial: Sequence[Index]
    taps: Sequence[Index]
    read: Index
    written: Index
    read_in_group: "Index | int"
    written_in_group: "Index | int"


@dataclass(frozen=True)
class Channels:
    """How a block runs over channels.

    With one group over (o | c), in depthwise convolutions over (o |), else over
    (group, o | c), where o and c count within the group.

    Attributes:
        groups: how many; inputs, outputs: channels of one group.
    """

    groups: int
    inputs: Dim
    outputs: Dim

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.inputs == 1 and self.outputs == 1

    @property
    def is_grouped(self) -> bool:
        return self.groups > 1 and not self.is_depthwise

    def reduce(
        self,
        b: Builder,
        kernel: Sequence[Dim],
        body: "Callable[[Point], Scalar]",
        name: str,
        order: Sequence[int],
    ) -> Buffer:
        """The result whose elements are sums of ``body`` over channels and taps.

        Args:
            b: writes it.
            kernel: the extents of the taps.
            body: one product.
            name: of the block.
            order: which of batch, channel and spatial axes every axis of the result is.
        """
        shape, dtype = b.results[0]
        n, channels, *sizes = (shape[order.index(i)] for i in range(len(shape)))
        own = (self.groups, self.outputs) if self.is_grouped else (channels,)
        inner = () if self.is_depthwise else (self.inputs,)
        split = 1 + len(own) + len(sizes)

        def at(*axes: Index) -> Scalar:
            written, spatial = axes[1 : 1 + len(own)], axes[1 + len(own) : split]
            read, taps = axes[split : split + len(inner)], axes[split + len(inner) :]
            return body(self._point(b, axes[0], written, spatial, read, taps))

        def place(*axes: Index) -> "tuple[Index | int, ...]":
            written = self._written(b, axes[1 : 1 + len(own)])
            point = (axes[0], written, *axes[1 + len(own) :])
            return tuple(point[i] for i in order)

        return b.reduce_over(
            "add",
            shape,
            (*inner, *kernel),
            at,
            dtype,
            name,
            spatial=(n, *own, *sizes),
            place=place,
        )

    def _written(self, b: Builder, axes: Sequence[Index]) -> Index:
        return axes[0] * b.dim(self.outputs) + axes[1] if self.is_grouped else axes[0]

    def _point(
        self,
        b: Builder,
        n: Index,
        written: Sequence[Index],
        spatial: Sequence[Index],
        read: Sequence[Index],
        taps: Sequence[Index],
    ) -> Point:
        y = self._written(b, written)
        if self.is_depthwise:
            return Point(n, spatial, taps, y, y, 0, 0)
        x = written[0] * b.dim(self.inputs) + read[0] if self.is_grouped else read[0]
        return Point(n, spatial, taps, x, y, read[0], written[-1])
