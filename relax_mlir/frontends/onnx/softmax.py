"""Rules for Softmax, LogSoftmax and Hardmax of old opsets, which flatten their input."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.softmax import AxisOp, HardmaxOp, LogSoftmaxOp, SoftmaxOp


@onnx_rule("Softmax", since=1)
def softmax(node: OnnxNode) -> ir.Value:
    """Softmax of the input flattened to a matrix at ``axis``.

    Source: ONNX Softmax-11.
    """
    return _flattened(SoftmaxOp, node)


@onnx_rule("LogSoftmax", since=1)
def log_softmax(node: OnnxNode) -> ir.Value:
    """Log-softmax of the input flattened to a matrix at ``axis``.

    Source: ONNX LogSoftmax-11.
    """
    return _flattened(LogSoftmaxOp, node)


@onnx_rule("Hardmax", since=1)
def hardmax(node: OnnxNode) -> ir.Value:
    """Hardmax of the input flattened to a matrix at ``axis``: one-hot of the first maximum.

    Source: ONNX Hardmax-11.
    """
    return _flattened(HardmaxOp, node)


def _flattened(op: type[AxisOp], node: OnnxNode) -> ir.Value:
    x = node.input(0)
    shape = tensors.shape_of(x)
    axis = shapes.check_axis(node.attr("axis", 1), len(shape))
    if all(dim == 1 for dim in shape[axis + 1 :]):
        return op(x, axis=axis).y
    matrix = [shapes.product(shape[:axis]), shapes.product(shape[axis:])]
    y = op(ReshapeOp(x, shape=matrix).y, axis=1).y
    return ReshapeOp(y, shape=shape).y
