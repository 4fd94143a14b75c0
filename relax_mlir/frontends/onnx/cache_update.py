"""The rule for rows that are written into caches."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cache_update import CacheUpdateOp
from relax_mlir.dialects.relax.movement import BroadcastToOp


@onnx_rule("TensorScatter", since=24)
def tensor_scatter(node: OnnxNode) -> ir.Value:
    """A cache, with rows replaced from a place on that each of the batch has.

    Source: ONNX TensorScatter-24.
    """
    mode = node.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise ValueError(f"bad mode: expected linear or circular, got {mode!r}")
    past, places = node.input(0), node.optional(2)
    if places is None:
        zero = node.constant(np.zeros((), np.int64))
        places = BroadcastToOp(zero, shape=tensors.shape_of(past)[:1]).y
    return CacheUpdateOp(
        past,
        node.input(1),
        places,
        axis=node.attr("axis", -2),
        circular=mode == "circular",
    ).y
