"""U-Net with random weights: four downsampling and four upsampling levels."""

import numpy as np
import onnx

from models.graph import AFTER_RELU, Graph, batch_dim
from models.images import synthetic_images

tolerance = 1e-4

_LEVELS = 4


def build(
    batch: int | None = 1, *, width: int = 32, size: int = 128
) -> onnx.ModelProto:
    """Build a model from ``x`` [batch, 3, size, size] to ``mask`` [batch, 2, size, size].

    Args:
        batch: None leaves it symbolic.
        width: channels of the first level; they double at each further level.
        size: a multiple of 16.

    Source: Ronneberger et al., U-Net, 2015; with padding, which keeps sizes, and batch
    normalization after each convolution.
    """
    g = Graph("unet", opset=18)
    n = batch_dim(batch)
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
    """Synthetic images."""
    return {"x": synthetic_images(seed, batch, size)}


def _double_conv(g: Graph, x: str, path: str, channels: tuple[int, int]) -> str:
    """Two 3x3 convolutions, each with batch normalization and Relu."""
    before, after = channels
    for part, count in (("a", before), ("b", after)):
        name = f"{path}/{part}"
        gain = 1.0 if count == 3 else AFTER_RELU
        x = g.conv(x, f"{name}/conv", (count, after), 3, gain=gain)
        x = g.batch_norm(x, f"{name}/bn", after)
        x = g.node("Relu", x, path=name)
    return x


def _conv_transpose(g: Graph, x: str, path: str, channels: tuple[int, int]) -> str:
    """Transposed convolution that doubles height and width, with centered filters."""
    weight = g.rng.standard_normal((*channels, 2, 2), np.float32)
    weight -= weight.mean(0, keepdims=True)
    weight *= np.float32((AFTER_RELU / channels[0]) ** 0.5)
    weights = (
        g.weight(f"{path}/up.weight", weight),
        g.normal(f"{path}/up.bias", channels[1:], 0.1),
    )
    sizes = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return g.node("ConvTranspose", x, *weights, path=path, **sizes)
