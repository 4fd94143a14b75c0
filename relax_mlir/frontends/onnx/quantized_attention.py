"""Rule for quantized attention."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.frontends.onnx.microsoft_attention import self_attention
from relax_mlir.frontends.onnx.node_form import check_inputs_and_attributes
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    column_parameter,
    integer_matmul,
    zero_point_operand,
)


@onnx_rule("com.microsoft::QAttention", since=1)
def quantized_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Self-attention with a KV cache, whose projections are integer matmuls.

    Source: onnxruntime, com.microsoft QAttention-1.
    """
    names = ("num_heads", "unidirectional", "mask_filter_value", "scale")
    check_inputs_and_attributes(
        node, 9, *names, "do_rotary", "past_present_share_buffer"
    )
    return self_attention(node, _projected(node), past=8, mask=5, bias=None)


def _projected(node: OnnxNode) -> ir.Value:
    """Packed queries, keys and values: an integer matmul, dequantized, plus a bias."""
    zeros = (
        column_parameter(zero_point_operand(node, 6)),
        column_parameter(zero_point_operand(node, 7)),
    )
    accumulator = integer_matmul(node, node.input(0), node.input(1), *zeros)
    scale = MultiplyOp(
        column_parameter(node.input(3)), column_parameter(node.input(4))
    ).z
    return AddOp(MultiplyOp(as_f32(accumulator), scale).z, node.input(2)).z
