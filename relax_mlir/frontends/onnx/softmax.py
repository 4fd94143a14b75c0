"""Softmax and its kin of old opsets: over all axes from one on."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.norm import AxisOp, HardmaxOp, LogSoftmaxOp, SoftmaxOp


@onnx_rule("Softmax", since=1)
def softmax(node: OnnxNode) -> ir.Value:
    """Softmax of the matrix that the input is, flattened around ``axis``.

    Source: ONNX Softmax-11.
    """
    return _of_matrix(SoftmaxOp, node)


@onnx_rule("LogSoftmax", since=1)
def log_softmax(node: OnnxNode) -> ir.Value:
    """The logarithm of softmax, of the matrix that the input is.

    Source: ONNX LogSoftmax-11.
    """
    return _of_matrix(LogSoftmaxOp, node)


@onnx_rule("Hardmax", since=1)
def hardmax(node: OnnxNode) -> ir.Value:
    """One at the first of the largest of each row of the matrix that the input is.

    Source: ONNX Hardmax-11.
    """
    return _of_matrix(HardmaxOp, node)


def _of_matrix(op: type[AxisOp], node: OnnxNode) -> ir.Value:
    x = node.input(0)
    shape = tensors.shape_of(x)
    axis = shapes.check_axis(node.attr("axis", 1), len(shape))
    if all(dim == 1 for dim in shape[axis + 1 :]):
        return op(x, axis=axis).y
    matrix = [shapes.product(shape[:axis]), shapes.product(shape[axis:])]
    y = op(ReshapeOp(x, shape=matrix).y, axis=1).y
    return ReshapeOp(y, shape=shape).y
