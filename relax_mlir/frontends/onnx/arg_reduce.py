"""Rules for the searches along an axis."""

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arg_reduce import (
    ArgmaxLastOp,
    ArgmaxOp,
    ArgminLastOp,
    ArgminOp,
    ArgReduceOp,
)


@onnx_rule("ArgMax", since=1)
def argmax(node: OnnxNode) -> ir.Value:
    """The index of the first, or the last, of the largest elements.

    Source: ONNX ArgMax-13.
    """
    return _search(node, ArgmaxOp, ArgmaxLastOp)


@onnx_rule("ArgMin", since=1)
def argmin(node: OnnxNode) -> ir.Value:
    """The index of the first, or the last, of the smallest elements.

    Source: ONNX ArgMin-13.
    """
    return _search(node, ArgminOp, ArgminLastOp)


def _search(
    node: OnnxNode, first: type[ArgReduceOp], last: type[ArgReduceOp]
) -> ir.Value:
    op = last if node.flag("select_last_index", default=False) else first
    axis, keepdims = node.attr("axis", 0), node.flag("keepdims", default=True)
    return op(node.input(0), axis=axis, keepdims=keepdims).y
