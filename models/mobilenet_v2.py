"""MobileNetV2 with random weights: depthwise convolutions, ReLU6 as Clip."""

import numpy as np
import onnx

from models.graph import Graph, batch_dim
from models.images import synthetic_images

tolerance = 1e-4

# Expansion, output channels, blocks, stride of the first block.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def build(batch: int | None = 1) -> onnx.ModelProto:
    """Build a model from ``x`` [batch, 3, 224, 224] to ``logits`` [batch, 1000].

    A batch of None is a symbolic size.

    Source: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks,
    2018, table 2.
    """
    g = Graph("mobilenet_v2")
    n = batch_dim(batch)
    x = g.input("x", (n, 3, 224, 224))
    y = _conv_bn_relu6(g, x, "features/0", (3, 32), 3, stride=2, gain=1.0)
    channels, index = 32, 1
    for expansion, after, blocks, first_stride in _STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            sizes = (channels, expansion, after)
            y = _inverted_residual(g, y, f"features/{index}", sizes, stride)
            channels, index = after, index + 1
    y = _conv_bn_relu6(g, y, f"features/{index}", (channels, 1280), 1, gain=1.0)
    y = g.node("Flatten", g.node("GlobalAveragePool", y), axis=1)
    g.output("logits", g.linear(y, "classifier", (1280, 1000), std=0.05), (n, 1000))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1) -> dict[str, np.ndarray]:
    """Synthetic images."""
    return {"x": synthetic_images(seed, batch)}


def _inverted_residual(
    g: Graph, x: str, path: str, sizes: tuple[int, int, int], stride: int
) -> str:
    before, expansion, after = sizes
    width = before * expansion
    y = x
    if expansion != 1:
        y = _conv_bn_relu6(g, y, f"{path}/expand", (before, width), 1, gain=1.0)
    name = f"{path}/depthwise"
    y = _conv_bn_relu6(
        g, y, name, (width, width), 3, gain=2.0, stride=stride, groups=width
    )
    y = g.conv(y, f"{path}/project/conv", (width, after), 1)
    joined = stride == 1 and before == after
    # A smaller residual keeps the sums of a stage below the clip at 6.
    y = g.batch_norm(y, f"{path}/project/bn", after, scale=0.5 if joined else 1.0)
    return g.node("Add", x, y, path=path) if joined else y


def _conv_bn_relu6(
    g: Graph,
    x: str,
    path: str,
    channels: tuple[int, int],
    kernel: int,
    *,
    gain: float,
    stride: int = 1,
    groups: int = 1,
) -> str:
    y = g.conv(
        x, f"{path}/conv", channels, kernel, stride=stride, groups=groups, gain=gain
    )
    y = g.batch_norm(y, f"{path}/bn", channels[1])
    return g.node("Clip", y, g.constant(0.0), g.constant(6.0), path=path)
