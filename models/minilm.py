"""MiniLM-L6 with random weights: a BERT encoder with 6 layers of 384."""

import numpy as np
import onnx

from models import bert

tolerance = bert.tolerance


def build(
    seq: int | None = None, *, batch: int = 1, decompose_layernorm: bool = False
) -> onnx.ModelProto:
    """Build the architecture of all-MiniLM-L6-v2; arguments as for `bert.build`.

    Source: Wang et al., MiniLM, 2020.
    """
    return bert.build(
        6, 384, 12, seq=seq, batch=batch, decompose_layernorm=decompose_layernorm
    )


def inputs(seed: int = 0, *, batch: int = 1, seq: int = 128) -> dict[str, np.ndarray]:
    """Random tokens with padding."""
    return bert.inputs(seed, batch=batch, seq=seq)
