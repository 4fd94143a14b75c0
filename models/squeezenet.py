"""SqueezeNet 1.1 with random weights: branches joined by Concat, no Gemm."""

import numpy as np
import onnx

from models.graph import Graph, batch_dim
from models.images import synthetic_images

tolerance = 1e-4

# Squeezed channels and half the output channels of each fire module, by stage.
_STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)


def build(batch: int | None = 1) -> onnx.ModelProto:
    """Build a model from ``x`` [batch, 3, 224, 224] to ``logits`` [batch, 1000].

    A batch of None is a symbolic size.

    Source: Iandola et al., SqueezeNet, 2016; release 1.1 of the authors' models.
    """
    g = Graph("squeezenet", opset=13)
    n = batch_dim(batch)
    x = g.input("x", (n, 3, 224, 224))
    y = g.conv(x, "features/0", (3, 64), 3, stride=2, pad=0, bias=True, gain=1.0)
    y = g.node("Relu", y, path="features/1")
    channels, index = 64, 2
    for stage in _STAGES:
        pool = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
        y = g.node("MaxPool", y, path=f"features/{index}", **pool)
        index += 1
        for squeezed, half in stage:
            y = _fire(g, y, f"features/{index}", (channels, squeezed, half))
            channels, index = 2 * half, index + 1
    # The average over positions divides the deviation by about ten.
    y = g.conv(y, "classifier/1", (channels, 1000), 1, bias=True, gain=250.0)
    y = g.node("GlobalAveragePool", g.node("Relu", y, path="classifier/2"))
    g.output("logits", g.node("Flatten", y, axis=1), (n, 1000))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1) -> dict[str, np.ndarray]:
    """Synthetic images."""
    return {"x": synthetic_images(seed, batch)}


def _fire(g: Graph, x: str, path: str, channels: tuple[int, int, int]) -> str:
    before, squeezed, half = channels
    y = g.conv(x, f"{path}/squeeze", (before, squeezed), 1, bias=True)
    y = g.node("Relu", y, path=f"{path}/squeeze")
    expanded = []
    for kernel in (1, 3):
        name = f"{path}/expand{kernel}x{kernel}"
        z = g.conv(y, name, (squeezed, half), kernel, bias=True)
        expanded.append(g.node("Relu", z, path=name))
    return g.node("Concat", *expanded, path=path, axis=1)
