"""``relax-expand-conv-transpose``: a transposed convolution becomes a convolution."""

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
from relax_mlir.dialects.relax.movement import FlipOp, PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, pattern, rewrite_greedily

__all__ = ["ExpandConvTranspose"]

_CONVS = {
    Conv1dTransposeOp: Conv1dOp,
    Conv2dTransposeOp: Conv2dOp,
    Conv3dTransposeOp: Conv3dOp,
}


@dataclass(frozen=True)
class ExpandConvTranspose(Pass):
    """Compute the elements between two inputs as channels of a convolution, then lay them out.

    With stride s, element ``s * q + a`` of the result is the sum over u of ``x[q - u]``
    times tap ``s * u + a`` of the kernel: for each a a convolution of stride 1, of a
    kernel that is s times as short. No zero between inputs is multiplied.
    Source: Shi et al., Is the deconvolution layer the same as a convolutional layer?,
    arXiv 1609.07009, 2016.
    """

    def run(self, module: IRModule) -> None:
        rewrite_greedily(module, _expand, rounds=1)


@pattern
def _expand(
    op: Conv1dTransposeOp | Conv2dTransposeOp | Conv3dTransposeOp,
) -> ir.Value | None:
    """What a transposed convolution computes, if its kernel is known and has no gaps."""
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
    return _cut(_laid_out(conv.y, strides), op.y, attrs["padding"])


def _phases(
    weight: ir.Value, strides: Sequence[int], taps: Sequence[int], groups: int
) -> ir.Value:
    """The kernels of all elements between two inputs, as channels of one convolution.

    Shapes: weight (c, o / groups, spatial...); result (o * phases, c / groups, taps...).
    """
    channels, per_group, *kernel = tensors.shape_of(weight)
    rank = len(kernel)
    sizes = [s * t for s, t in zip(strides, taps, strict=True)]
    after = [whole - size for whole, size in zip(sizes, kernel, strict=True)]
    if any(after):
        widths = pad_widths((*[0] * (rank + 2), 0, 0, *after))
        weight = PadOp(weight, pad_width=widths).y
    own = channels // groups
    pairs = [n for t, s in zip(taps, strides, strict=True) for n in (t, s)]
    cut = ReshapeOp(weight, shape=(groups, own, per_group, *pairs)).y
    for axis in range(rank):
        if taps[axis] > 1:
            cut = FlipOp(cut, axis=3 + 2 * axis).y
    steps, phases = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    turned = PermuteDimsOp(cut, axes=(0, 2, *phases, 1, *steps)).y
    count = groups * per_group * math.prod(strides)
    return ReshapeOp(turned, shape=(count, own, *taps)).y


def _laid_out(y: ir.Value, strides: Sequence[int]) -> ir.Value:
    """Channels that are elements between two inputs, in their places.

    Shapes: y (n, o * phases, q...); result (n, o, q * stride...).
    """
    n, channels, *places = tensors.shape_of(y)
    rank = len(places)
    own = channels // math.prod(strides)
    if own != channels:
        cut = ReshapeOp(y, shape=(n, own, *strides, *places)).y
        pairs = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
        y = PermuteDimsOp(cut, axes=(0, 1, *pairs)).y
    sizes = [q * s for q, s in zip(places, strides, strict=True)]
    return ReshapeOp(y, shape=(n, own, *sizes)).y


def _cut(whole: ir.Value, y: ir.Value, padding: Sequence[int]) -> ir.Value:
    """What the paddings leave, in the shape of ``y``."""
    sizes = tensors.shape_of(y)[2:]
    if tensors.shape_of(whole)[2:] == sizes:
        return whole
    begin = padding[: len(sizes)]
    end = [first + size for first, size in zip(begin, sizes, strict=True)]
    axes = range(2, 2 + len(sizes))
    cut = StridedSliceOp(whole, axes=axes, begin=begin, end=end, assume_inbound=True)
    return cut.y
