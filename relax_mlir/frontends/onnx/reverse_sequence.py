"""Rule for ReverseSequence."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.reverse_sequence import ReverseSequenceOp


@onnx_rule("ReverseSequence", since=10)
def reverse_sequence(node: OnnxNode) -> ir.Value:
    """Reversal of the first elements of each sequence, up to its own length.

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
