"""ResNet-50 v1 with random weights, and BatchNormalization separate from Conv."""

import numpy as np
import onnx

from models.graph import AFTER_RELU, Graph, batch_dim
from models.images import synthetic_images

tolerance = 1e-4

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, bottlenecks


def build(batch: int | None = 1) -> onnx.ModelProto:
    """Build a model from ``x`` [batch, 3, 224, 224] to ``logits`` [batch, 1000].

    A batch of None is a symbolic size.

    Source: He et al., Deep Residual Learning for Image Recognition, 2015, table 1. As
    there, the first 1x1 convolution of a stage has the stride (torch's is v1.5).
    """
    g = Graph("resnet50")
    n = batch_dim(batch)
    y = _conv_bn(
        g, g.input("x", (n, 3, 224, 224)), "stem", (3, 64), 7, stride=2, gain=1.0
    )
    y = g.node("Relu", y, path="stem")
    pool = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    y = g.node("MaxPool", y, path="stem", **pool)
    channels = 64
    for stage, (width, blocks) in enumerate(_STAGES, start=1):
        for block in range(blocks):
            stride = 2 if stage > 1 and block == 0 else 1
            path = f"layer{stage}/{block}"
            y = _bottleneck(g, y, path, (channels, width), stride)
            channels = 4 * width
    y = g.node("Flatten", g.node("GlobalAveragePool", y), axis=1)
    g.output("logits", g.linear(y, "fc", (channels, 1000), std=0.02), (n, 1000))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1) -> dict[str, np.ndarray]:
    """Synthetic images."""
    return {"x": synthetic_images(seed, batch)}


def _bottleneck(
    g: Graph, x: str, path: str, channels: tuple[int, int], stride: int
) -> str:
    before, width = channels
    after = 4 * width
    y = _conv_bn(g, x, f"{path}/a", (before, width), 1, stride=stride)
    y = g.node("Relu", y, path=f"{path}/a")
    y = _conv_bn(g, y, f"{path}/b", (width, width), 3)
    y = g.node("Relu", y, path=f"{path}/b")
    # As in trained networks, the residual is small; at 1.0 values would double per block.
    y = _conv_bn(g, y, f"{path}/c", (width, after), 1, scale=0.4)
    if before != after:
        x = _conv_bn(g, x, f"{path}/shortcut", (before, after), 1, stride=stride)
    return g.node("Relu", g.node("Add", y, x, path=path), path=path)


def _conv_bn(
    g: Graph,
    x: str,
    path: str,
    channels: tuple[int, int],
    kernel: int,
    *,
    stride: int = 1,
    gain: float = AFTER_RELU,
    scale: float = 1.0,
) -> str:
    y = g.conv(x, f"{path}/conv", channels, kernel, stride=stride, gain=gain)
    return g.batch_norm(y, f"{path}/bn", channels[1], scale=scale)
