"""MobileNetV3-Small with random weights: HardSwish, HardSigmoid, squeeze-and-excite."""

import numpy as np
import onnx

from models.graph import AFTER_RELU, Graph, batch_dim
from models.images import synthetic_images

tolerance = 1e-4

# Kernel, expanded width, output channels, squeeze-and-excite, activation, stride.
_BLOCKS = (
    (3, 16, 16, True, "Relu", 2),
    (3, 72, 24, False, "Relu", 2),
    (3, 88, 24, False, "Relu", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)

# 1 / mean square of the activation of a unit normal, the input of a depthwise filter.
_DEPTHWISE_GAINS = {"Relu": 2.0, "HardSwish": 3.0}


def build(batch: int | None = 1) -> onnx.ModelProto:
    """Build a model from ``x`` [batch, 3, 224, 224] to ``logits`` [batch, 1000].

    A batch of None is a symbolic size.

    Source: Howard et al., Searching for MobileNetV3, 2019, table 2; gate widths and
    epsilon 1e-3 as in torchvision.
    """
    g = Graph("mobilenet_v3_small")
    n = batch_dim(batch)
    x = g.input("x", (n, 3, 224, 224))
    y = _conv_bn(g, x, "features/0", (3, 16), 3, "HardSwish", stride=2, gain=1.0)
    channels = 16
    for index, block in enumerate(_BLOCKS, start=1):
        y = _block(g, y, f"features/{index}", channels, block)
        channels = block[2]
    y = _conv_bn(g, y, "features/12", (channels, 576), 1, "HardSwish", gain=1.0)
    y = g.node("Flatten", g.node("GlobalAveragePool", y), axis=1)
    y = g.linear(y, "classifier/0", (576, 1024), std=0.3)
    y = g.node("HardSwish", y, path="classifier/1")
    g.output("logits", g.linear(y, "classifier/3", (1024, 1000), std=0.06), (n, 1000))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1) -> dict[str, np.ndarray]:
    """Synthetic images."""
    return {"x": synthetic_images(seed, batch)}


def _block(
    g: Graph,
    x: str,
    path: str,
    before: int,
    block: tuple[int, int, int, bool, str, int],
) -> str:
    kernel, width, after, gated, activation, stride = block
    y = x
    if width != before:
        y = _conv_bn(g, y, f"{path}/expand", (before, width), 1, activation, gain=1.0)
    y = _conv_bn(
        g,
        y,
        f"{path}/depthwise",
        (width, width),
        kernel,
        activation,
        gain=_DEPTHWISE_GAINS[activation],
        stride=stride,
        groups=width,
    )
    if gated:
        y = _gate(g, y, f"{path}/gate", width)
    gain = 4 * AFTER_RELU if gated else AFTER_RELU  # the gate halves what it passes
    y = g.conv(y, f"{path}/project/conv", (width, after), 1, gain=gain)
    joined = stride == 1 and before == after
    scale = 0.5 if joined else 1.0
    y = g.batch_norm(y, f"{path}/project/bn", after, scale=scale, epsilon=1e-3)
    return g.node("Add", y, x, path=path) if joined else y


def _gate(g: Graph, x: str, path: str, width: int) -> str:
    """Squeeze-and-excite: scale each channel by a gate of about 1/2."""
    squeezed = max(8, (width // 4 + 4) // 8 * 8)  # to the nearest multiple of 8
    y = g.node("GlobalAveragePool", x, path=path)
    y = g.conv(y, f"{path}/fc1", (width, squeezed), 1, bias=True, gain=30.0)
    y = g.node("Relu", y, path=path)
    y = g.conv(y, f"{path}/fc2", (squeezed, width), 1, bias=True)
    y = g.node("HardSigmoid", y, path=path, alpha=1 / 6)
    return g.node("Mul", y, x, path=path)


def _conv_bn(
    g: Graph,
    x: str,
    path: str,
    channels: tuple[int, int],
    kernel: int,
    activation: str,
    *,
    gain: float,
    stride: int = 1,
    groups: int = 1,
) -> str:
    y = g.conv(
        x, f"{path}/conv", channels, kernel, stride=stride, groups=groups, gain=gain
    )
    y = g.batch_norm(y, f"{path}/bn", channels[1], epsilon=1e-3)
    return g.node(activation, y, path=path)
