"""Rule for TensorScatter, the in-place update of a KV cache."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cache_update import CacheUpdateOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp


@onnx_rule("TensorScatter", since=24)
def tensor_scatter(node: OnnxNode) -> ir.Value:
    """A KV cache with rows overwritten from a start position per batch element.

    Source: ONNX TensorScatter-24.
    """
    mode = node.attr("mode", "linear")
    if mode not in ("linear", "circular"):
        raise ValueError(f"bad mode: expected linear or circular, got {mode!r}")
    past, starts = node.input(0), node.optional(2)
    if starts is None:
        zero = node.constant(np.zeros((), np.int64))
        starts = BroadcastToOp(zero, shape=tensors.shape_of(past)[:1]).y
    return CacheUpdateOp(
        past,
        node.input(1),
        starts,
        axis=node.attr("axis", -2),
        circular=mode == "circular",
    ).y
