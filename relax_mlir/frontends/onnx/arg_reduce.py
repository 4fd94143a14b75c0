"""Rules for argmax and argmin."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arg_reduce import (
    ArgmaxLastOp,
    ArgmaxOp,
    ArgminLastOp,
    ArgminOp,
    ArgReduceOp,
)


@onnx_rule("ArgMax", since=1)
def argmax(node: OnnxNode) -> ir.Value:
    """Index of the maximum along an axis; ties go to the first or the last one.

    Source: ONNX ArgMax-13.
    """
    return _arg_reduce(node, ArgmaxOp, ArgmaxLastOp)


@onnx_rule("ArgMin", since=1)
def argmin(node: OnnxNode) -> ir.Value:
    """Index of the minimum along an axis; ties go to the first or the last one.

    Source: ONNX ArgMin-13.
    """
    return _arg_reduce(node, ArgminOp, ArgminLastOp)


def _arg_reduce(
    node: OnnxNode, first: type[ArgReduceOp], last: type[ArgReduceOp]
) -> ir.Value:
    op = last if node.flag("select_last_index", default=False) else first
    axis, keepdims = node.attr("axis", 0), node.flag("keepdims", default=True)
    return op(node.input(0), axis=axis, keepdims=keepdims).y
