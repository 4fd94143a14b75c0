"""``relax-expand-conv-transpose``: transposed convolutions as sub-pixel convolutions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.conv_transpose import (
    Conv1dTransposeOp,
    Conv2dTransposeOp,
    Conv3dTransposeOp,
)
from relax_mlir.dialects.relax.manipulate import FlipOp, PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass, pattern, rewrite_greedily

__all__ = ["ExpandConvTranspose"]

_CONVS = {
    Conv1dTransposeOp: Conv1dOp,
    Conv2dTransposeOp: Conv2dOp,
    Conv3dTransposeOp: Conv3dOp,
}


@dataclass(frozen=True)
class ExpandConvTranspose(Pass):
    """Rewrite transposed convolutions as a convolution of stride 1 and depth-to-space.

    With stride s, element ``s * q + a`` of the result is the sum over u of ``x[q - u]``
    times tap ``s * u + a`` of the kernel: for each phase a, a convolution of stride 1 whose
    kernel is 1/s as long. No inserted zero is multiplied.

    Source: Shi et al., Is the deconvolution layer the same as a convolutional layer?,
    arXiv 1609.07009, 2016.
    """

    def run(self, module: IRModule) -> None:
        rewrite_greedily(module, _expand, rounds=1)


@pattern
def _expand(
    op: Conv1dTransposeOp | Conv2dTransposeOp | Conv3dTransposeOp,
) -> ir.Value | None:
    """The sub-pixel form of a transposed convolution of static kernel size and dilation 1."""
    attrs = op.python_attrs()
    layouts = op.layouts(attrs)
    is_plain = all(
        layout.is_plain for layout in (layouts.data, layouts.kernel, layouts.out)
    )
    channels, per_group, *kernel = tensors.shape_of(op.weight)
    is_known = all(isinstance(n, int) and n for n in (channels, per_group, *kernel))
    if not is_plain or not is_known or set(attrs["dilation"]) != {1}:
        return None
    strides = attrs["strides"]
    extra = attrs["output_padding"] or [0] * len(kernel)
    taps = [
        -(-(size + more) // stride)
        for size, more, stride in zip(kernel, extra, strides, strict=True)
    ]
    conv = _CONVS[type(op)](
        op.data,
        _phases(op.weight, strides, taps, attrs["groups"]),
        padding=[count - 1 for count in taps] * 2,
        groups=attrs["groups"],
        out_dtype=attrs["out_dtype"],
    )
    return _crop(_depth_to_space(conv.y, strides), op.y, attrs["padding"])


def _phases(
    weight: ir.Value, strides: Sequence[int], taps: Sequence[int], groups: int
) -> ir.Value:
    """The kernels of all output phases, as output channels of one convolution.

    Shapes: weight (c, o / groups, spatial...); result (o * phases, c / groups, taps...).
    """
    channels, per_group, *kernel = tensors.shape_of(weight)
    rank = len(kernel)
    sizes = [s * t for s, t in zip(strides, taps, strict=True)]
    trailing = [whole - size for whole, size in zip(sizes, kernel, strict=True)]
    if any(trailing):
        widths = pad_widths((*[0] * (rank + 2), 0, 0, *trailing))
        weight = PadOp(weight, pad_width=widths).y
    in_per_group = channels // groups
    pairs = [n for t, s in zip(taps, strides, strict=True) for n in (t, s)]
    phases_of_taps = ReshapeOp(
        weight, shape=(groups, in_per_group, per_group, *pairs)
    ).y
    for axis in range(rank):
        if taps[axis] > 1:
            phases_of_taps = FlipOp(phases_of_taps, axis=3 + 2 * axis).y
    steps, phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    transposed = PermuteDimsOp(phases_of_taps, axes=(0, 2, *phases, 1, *steps)).y
    count = groups * per_group * math.prod(strides)
    return ReshapeOp(transposed, shape=(count, in_per_group, *taps)).y


def _depth_to_space(y: ir.Value, strides: Sequence[int]) -> ir.Value:
    """Depth to space: interleaves the phases, which are channels, into the spatial axes.

    Shapes: y (n, o * phases, q...); result (n, o, q * stride...).
    """
    n, channels, *spatial = tensors.shape_of(y)
    rank = len(spatial)
    out_channels = channels // math.prod(strides)
    if out_channels != channels:
        split = ReshapeOp(y, shape=(n, out_channels, *strides, *spatial)).y
        pairs = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
        y = PermuteDimsOp(split, axes=(0, 1, *pairs)).y
    sizes = [q * s for q, s in zip(spatial, strides, strict=True)]
    return ReshapeOp(y, shape=(n, out_channels, *sizes)).y


def _crop(whole: ir.Value, y: ir.Value, padding: Sequence[int]) -> ir.Value:
    """The slice of the result that the padding keeps, in the shape of ``y``."""
    sizes = tensors.shape_of(y)[2:]
    if tensors.shape_of(whole)[2:] == sizes:
        return whole
    begin = padding[: len(sizes)]
    end = [first + size for first, size in zip(begin, sizes, strict=True)]
    axes = range(2, 2 + len(sizes))
    cropped = StridedSliceOp(
        whole, axes=axes, begin=begin, end=end, assume_inbound=True
    )
    return cropped.y
