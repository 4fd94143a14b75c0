"""U-Net with random weights: four poolings down, four transposed convolutions up."""

import numpy as np
import onnx

from models.graph import AFTER_RELU, Graph, batch_size
from models.images import pictures

tolerance = 1e-4

_LEVELS = 4


def build(
    batch: int | None = 1, *, width: int = 32, size: int = 128
) -> onnx.ModelProto:
    """Image ``x`` [batch, 3, size, size] to ``mask`` [batch, 2, size, size].

    Args:
        batch: None leaves it symbolic.
        width: channels of the first level; each further one has twice as many.
        size: a multiple of 16.

    Source: Ronneberger et al., U-Net, 2015; padded, so that sizes stay, and normalised
    after each convolution.
    """
    g = Graph("unet", opset=18)
    n = batch_size(batch)
    x = g.input("x", (n, 3, size, size))
    channels = [width << level for level in range(_LEVELS + 1)]
    y, before, kept = x, 3, []
    for level, after in enumerate(channels):
        if level:
            pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
            y = g.node("MaxPool", y, path=f"down/{level}", **pool)
        y = _double_conv(g, y, f"down/{level}", (before, after))
        kept.append(y)
        before = after
    for level in reversed(range(_LEVELS)):
        path, after = f"up/{level}", channels[level]
        y = _conv_transpose(g, y, path, (2 * after, after))
        y = g.node("Concat", kept[level], y, path=path, axis=1)
        y = _double_conv(g, y, path, (2 * after, after))
    y = g.conv(y, "out", (width, 2), 1, bias=True)
    g.output("mask", y, (n, 2, size, size))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1, size: int = 128) -> dict[str, np.ndarray]:
    """Synthetic pictures."""
    return {"x": pictures(seed, batch, size)}


def _double_conv(g: Graph, x: str, path: str, channels: tuple[int, int]) -> str:
    """Twice a 3x3 convolution, batch normalisation and Relu."""
    before, after = channels
    for part, count in (("a", before), ("b", after)):
        name = f"{path}/{part}"
        gain = 1.0 if count == 3 else AFTER_RELU
        x = g.conv(x, f"{name}/conv", (count, after), 3, gain=gain)
        x = g.batch_norm(x, f"{name}/bn", after)
        x = g.node("Relu", x, path=name)
    return x


def _conv_transpose(g: Graph, x: str, path: str, channels: tuple[int, int]) -> str:
    """Twice the height and width, by filters that sum to zero over the channels."""
    weight = g.rng.standard_normal((*channels, 2, 2), np.float32)
    weight -= weight.mean(0, keepdims=True)
    weight *= np.float32((AFTER_RELU / channels[0]) ** 0.5)
    weights = (
        g.weight(f"{path}/up.weight", weight),
        g.normal(f"{path}/up.bias", channels[1:], 0.1),
    )
    sizes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return g.node("ConvTranspose", x, *weights, path=path, **sizes)
