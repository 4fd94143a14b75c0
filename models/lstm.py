"""Stacked LSTM or GRU layers with random weights."""

import numpy as np
import onnx

from models.graph import Graph

tolerance = 1e-4

_GATES = {"LSTM": 4, "GRU": 3}


def build(
    op: str = "LSTM", *, seq: int = 64, width: int = 128, hidden: int = 256
) -> onnx.ModelProto:
    """Build a model from ``x`` [seq, 1, width] to ``y`` [seq, 1, hidden] with three layers.

    Args:
        op: ``LSTM``, or ``GRU`` with the reset gate after the matmul, as in torch.
        seq, width, hidden: the sizes.

    Source: ONNX LSTM-14, GRU-14; each layer as torch's exporter writes it.
    """
    g = Graph(op.lower(), opset=18)
    y = g.input("x", (seq, 1, width))
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    for layer in range(3):
        path = f"layer{layer}"
        y = g.node(
            op,
            y,
            *_weights(g, path, _GATES[op], (hidden if layer else width, hidden)),
            path=path,
            hidden_size=hidden,
            direction="forward",
            **attributes,
        )
        y = g.node("Squeeze", y, g.constant([1]), path=path)
    g.output("y", y, (seq, 1, hidden))
    return g.model()


def inputs(seed: int = 0, *, seq: int = 64, width: int = 128) -> dict[str, np.ndarray]:
    """A normally distributed sequence."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((seq, 1, width), np.float32)}


def _weights(
    g: Graph, path: str, gates: int, sizes: tuple[int, int]
) -> tuple[str, str, str]:
    """Input weights, recurrent weights, and both biases."""
    width, hidden = sizes
    return (
        g.normal(f"{path}.weight_ih", (1, gates * hidden, width), width**-0.5),
        g.normal(f"{path}.weight_hh", (1, gates * hidden, hidden), hidden**-0.5),
        g.normal(f"{path}.bias", (1, 2 * gates * hidden), 0.05),
    )
