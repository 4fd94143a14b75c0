"""Channel axes of convolution blocks: dense, grouped and depthwise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["ChannelAxes", "ConvPoint"]


@dataclass(frozen=True)
class ConvPoint:
    """One multiply-accumulate of a convolution.

    Attributes:
        n: index of the image in the batch.
        spatial: spatial indices of the output.
        taps: spatial indices of the kernel.
        read: input channel.
        written: output channel.
        read_in_group: input channel relative to its group.
        written_in_group: output channel relative to its group.
    """

    n: Index
    spatial: Sequence[Index]
    taps: Sequence[Index]
    read: Index
    written: Index
    read_in_group: "Index | int"
    written_in_group: "Index | int"


@dataclass(frozen=True)
class ChannelAxes:
    """The channel axes of a convolution block.

    Spatial | reduce axes: (o | c) for one group, (o |) for depthwise convolutions, else
    (group, o | c) with o and c relative to the group.

    Attributes:
        groups: number of groups.
        inputs: input channels per group.
        outputs: output channels per group.
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
        body: "Callable[[ConvPoint], Scalar]",
        name: str,
        order: Sequence[int],
    ) -> Buffer:
        """The result: sums of ``body`` over input channels and kernel taps.

        Args:
            b: the builder.
            kernel: the spatial extents of the kernel.
            body: one product.
            name: name of the block.
            order: layout of the result: per axis, the position of that axis among batch,
                channel and spatial axes.
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

        def access_map(*axes: Index) -> "tuple[Index | int, ...]":
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
            access_map=access_map,
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
    ) -> ConvPoint:
        y = self._written(b, written)
        if self.is_depthwise:
            return ConvPoint(n, spatial, taps, y, y, 0, 0)
        x = written[0] * b.dim(self.inputs) + read[0] if self.is_grouped else read[0]
        return ConvPoint(n, spatial, taps, x, y, read[0], written[-1])
