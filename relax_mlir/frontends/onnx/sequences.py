"""Rules for sequences in tensors: reversed, and written into caches."""

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cache_update import CacheUpdateOp
from relax_mlir.dialects.relax.movement import BroadcastToOp
from relax_mlir.dialects.relax.reverse_sequence import ReverseSequenceOp


@onnx_rule("ReverseSequence", since=10)
def reverse_sequence(node: OnnxNode) -> ir.Value:
    """Sequences backwards, each up to a length of its own.

    Source: ONNX ReverseSequence-10.
    """
    axes = node.attr("time_axis", 0), node.attr("batch_axis", 1)
    if sorted(axes) != [0, 1]:
        raise ValueError(
            f"time_axis and batch_axis: expected 0 and 1, or 1 and 0, got {axes}"
        )
    return ReverseSequenceOp(
        node.input(0), node.input(1), seq_axis=axes[0], batch_axis=axes[1]
    ).y


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
