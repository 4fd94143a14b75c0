"""Small multilayer perceptron with random weights: Gemm, Relu, Gemm."""

import numpy as np
import onnx

from models.graph import Graph, batch_dim

tolerance = 1e-4


def build(batch: int | None = 1) -> onnx.ModelProto:
    """Build a 784-128-10 network; None leaves the batch symbolic."""
    g = Graph("mlp", opset=18)
    n = batch_dim(batch)
    x = g.input("x", (n, 784))
    hidden = g.node("Relu", g.linear(x, "fc1", (784, 128), std=(2 / 784) ** 0.5))
    g.output("y", g.linear(hidden, "fc2", (128, 10), std=128**-0.5), (n, 10))
    return g.model()


def inputs(seed: int = 0, *, batch: int = 1) -> dict[str, np.ndarray]:
    """Normally distributed rows."""
    return {"x": np.random.default_rng(seed).standard_normal((batch, 784), np.float32)}
