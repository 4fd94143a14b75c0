"""Softmax of old opsets: over all axes from one on."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.norm import SoftmaxOp


@onnx_rule("Softmax", since=1)
def softmax(node: OnnxNode) -> ir.Value:
    """Softmax of the matrix that the input is, flattened around ``axis``.

    Source: ONNX Softmax-11.
    """
    x = node.input(0)
    shape = tensors.shape_of(x)
    axis = shapes.check_axis(node.attr("axis", 1), len(shape))
    if all(dim == 1 for dim in shape[axis + 1 :]):
        return SoftmaxOp(x, axis=axis).y
    matrix = [shapes.product(shape[:axis]), shapes.product(shape[axis:])]
    y = SoftmaxOp(ReshapeOp(x, shape=matrix).y, axis=1).y
    return ReshapeOp(y, shape=shape).y
