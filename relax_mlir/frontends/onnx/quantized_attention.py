"""The rule for attention whose projections are products of integers."""

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.frontends.onnx.microsoft_attention import self_attention
from relax_mlir.frontends.onnx.node_form import check_form
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    columns,
    integer_product,
    zero_point,
)


@onnx_rule("com.microsoft::QAttention", since=1)
def quantized_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Attention of a sequence to itself, and to what came before it.

    Source: onnxruntime, com.microsoft QAttention-1.
    """
    names = ("num_heads", "unidirectional", "mask_filter_value", "scale")
    check_form(node, 9, *names, "do_rotary", "past_present_share_buffer")
    return self_attention(node, _projected(node), past=8, mask=5, bias=None)


def _projected(node: OnnxNode) -> ir.Value:
    """Queries, keys and values of all heads, side by side."""
    zeros = columns(zero_point(node, 6)), columns(zero_point(node, 7))
    product = integer_product(node, node.input(0), node.input(1), *zeros)
    scale = MultiplyOp(columns(node.input(3)), columns(node.input(4))).z
    return AddOp(MultiplyOp(as_f32(product), scale).z, node.input(2)).z
