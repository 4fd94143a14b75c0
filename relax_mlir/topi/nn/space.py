"""Channels moved into space, and space into channels."""

from __future__ import annotations

from typing import Any

from relax_mlir import te
from relax_mlir.objects.functions import floordiv, truncdiv, truncmod
from relax_mlir.te import Tensor
from relax_mlir.topi.ranks import Picture, Positive
from relax_mlir.topi.sizes import plain
from relax_mlir.topi.tag import INJECTIVE

__all__ = ["depth_to_space", "pixel_shuffle", "space_to_depth"]


def _ordered(layout: str, values: Any) -> tuple[Any, Any, Any, Any]:
    """What belongs to batch, channels, height and width."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"layout `{layout}`: expected NCHW or NHWC")
    return tuple(values[layout.index(letter)] for letter in "NCHW")


def _laid_out(layout: str, values: Any) -> list[Any]:
    return [values["NCHW".index(letter)] for letter in layout]


def depth_to_space(
    data: Picture, block_size: Positive, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Channels as blocks of height and width.

    Args:
        data: the tensor.
        block_size: height and width of a block.
        layout: ``NCHW`` or ``NHWC``.
        mode: ``DCR`` takes channels of a block far apart, ``CRD`` next to each other.
    """
    n, c, h, w = _ordered(layout, data.shape)
    count = plain(truncdiv(c, block_size * block_size))
    sizes = [n, count, h * block_size, w * block_size]

    def element(*indices: Any) -> Any:
        n, c, y, x = _ordered(layout, indices)
        at_y, at_x = truncmod(y, block_size), truncmod(x, block_size)
        part = block_size * at_y + at_x
        channel = c * block_size * block_size + part
        if mode == "DCR":
            channel = count * part + c
        outer = truncdiv(y, block_size), truncdiv(x, block_size)
        return data(*_laid_out(layout, [n, channel, *outer]))

    shape = _laid_out(layout, sizes)
    return te.compute(shape, element, name="depth_to_space", tag=INJECTIVE)


def space_to_depth(data: Picture, block_size: Positive, layout: str = "NCHW") -> Tensor:
    """Blocks of height and width as channels."""
    n, channels, h, w = _ordered(layout, data.shape)
    outer = [plain(truncdiv(size, block_size)) for size in (h, w)]
    sizes = [n, channels * block_size * block_size, *outer]

    def element(*indices: Any) -> Any:
        n, c, y, x = _ordered(layout, indices)
        part, channel = truncdiv(c, channels), truncmod(c, channels)
        at_y, at_x = truncdiv(part, block_size), truncmod(part, block_size)
        places = [n, channel, at_y + y * block_size, at_x + x * block_size]
        return data(*_laid_out(layout, places))

    shape = _laid_out(layout, sizes)
    return te.compute(shape, element, name="space_to_depth", tag=INJECTIVE)


def pixel_shuffle(
    data: Tensor, upscale_factor: Positive, name: str = "PixelShuffle"
) -> Tensor:
    """Channels as blocks of height and width, the last three dimensions.

    Raises:
        ValueError: there are fewer than three.
    """
    if data.ndim < 3:
        raise ValueError(
            f"pixel_shuffle: expected 3 dimensions or more, got {data.ndim}"
        )
    factor = upscale_factor
    c, h, w = data.shape[-3:]
    sizes = [
        *data.shape[:-3],
        plain(floordiv(c, factor * factor)),
        h * factor,
        w * factor,
    ]

    def element(*indices: Any) -> Any:
        c, y, x = indices[-3:]
        channel = c * factor * factor + y % factor * factor + x % factor
        return data(*indices[:-3], channel, floordiv(y, factor), floordiv(x, factor))

    return te.compute(sizes, element, name=name)
