"""Depth-to-space, space-to-depth and pixel shuffle."""

from __future__ import annotations

from typing import Any

from relax_mlir.objects.prim.intrinsics import floordiv, truncdiv, truncmod
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.ranks import PositiveInt, Tensor4D
from relax_mlir.tvm.topi.sizes import simplified
from relax_mlir.tvm.topi.tag import INJECTIVE

__all__ = ["depth_to_space", "pixel_shuffle", "space_to_depth"]


def _to_nchw(layout: str, values: Any) -> tuple[Any, Any, Any, Any]:
    """Permute values from a layout to NCHW."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"layout `{layout}`: expected NCHW or NHWC")
    return tuple(values[layout.index(letter)] for letter in "NCHW")


def _from_nchw(layout: str, values: Any) -> list[Any]:
    return [values["NCHW".index(letter)] for letter in layout]


def depth_to_space(
    data: Tensor4D, block_size: PositiveInt, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Rearrange channels into spatial blocks.

    Args:
        data: the tensor.
        block_size: height and width of a block.
        layout: ``NCHW`` or ``NHWC``.
        mode: order of the channels: ``DCR`` (block, depth) or ``CRD`` (depth, block).
    """
    n, c, h, w = _to_nchw(layout, data.shape)
    count = simplified(truncdiv(c, block_size * block_size))
    sizes = [n, count, h * block_size, w * block_size]

    def element(*indices: Any) -> Any:
        n, c, y, x = _to_nchw(layout, indices)
        block_y, block_x = truncmod(y, block_size), truncmod(x, block_size)
        block_index = block_size * block_y + block_x
        channel = c * block_size * block_size + block_index
        if mode == "DCR":
            channel = count * block_index + c
        outer = truncdiv(y, block_size), truncdiv(x, block_size)
        return data(*_from_nchw(layout, [n, channel, *outer]))

    shape = _from_nchw(layout, sizes)
    return te.compute(shape, element, name="depth_to_space", tag=INJECTIVE)


def space_to_depth(
    data: Tensor4D, block_size: PositiveInt, layout: str = "NCHW"
) -> Tensor:
    """Rearrange spatial blocks into channels."""
    n, channels, h, w = _to_nchw(layout, data.shape)
    outer = [simplified(truncdiv(size, block_size)) for size in (h, w)]
    sizes = [n, channels * block_size * block_size, *outer]

    def element(*indices: Any) -> Any:
        n, c, y, x = _to_nchw(layout, indices)
        block_index, channel = truncdiv(c, channels), truncmod(c, channels)
        block_y, block_x = (
            truncdiv(block_index, block_size),
            truncmod(block_index, block_size),
        )
        source = [n, channel, block_y + y * block_size, block_x + x * block_size]
        return data(*_from_nchw(layout, source))

    shape = _from_nchw(layout, sizes)
    return te.compute(shape, element, name="space_to_depth", tag=INJECTIVE)


def pixel_shuffle(
    data: Tensor, upscale_factor: PositiveInt, name: str = "PixelShuffle"
) -> Tensor:
    """Pixel shuffle on the last three dimensions: channels become spatial blocks.

    Raises:
        ValueError: the rank is less than 3.
    """
    if data.ndim < 3:
        raise ValueError(
            f"pixel_shuffle: expected 3 dimensions or more, got {data.ndim}"
        )
    scale = upscale_factor
    c, h, w = data.shape[-3:]
    sizes = [
        *data.shape[:-3],
        simplified(floordiv(c, scale * scale)),
        h * scale,
        w * scale,
    ]

    def element(*indices: Any) -> Any:
        c, y, x = indices[-3:]
        channel = c * scale * scale + y % scale * scale + x % scale
        return data(*indices[:-3], channel, floordiv(y, scale), floordiv(x, scale))

    return te.compute(sizes, element, name=name)
