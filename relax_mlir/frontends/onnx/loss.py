"""Rules for loss functions: validation before the standard's function bodies."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, UseFunctionBodyError, onnx_rule
from relax_mlir.frontends.onnx.node_form import require_input_shape


@onnx_rule("SoftmaxCrossEntropyLoss", since=12)
@onnx_rule("NegativeLogLikelihoodLoss", since=12)
def class_loss(node: OnnxNode) -> ir.Value:
    """Loss of scores [n, c, ...] and class indices [n, ...], by the standard's function body.

    Source: ONNX SoftmaxCrossEntropyLoss-13, NegativeLogLikelihoodLoss-22.
    """
    reduction = node.attr("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"bad reduction: expected none, sum, mean, got `{reduction}`")
    scores = tensors.shape_of(node.input(0))
    if len(scores) < 2:
        raise ValueError(
            f"input 0: expected [n, c, ...], got {shapes.format_shape(scores)}"
        )
    count, classes, *rest = scores
    require_input_shape(node, 1, (count, *rest))
    if node.optional(2) is not None:
        require_input_shape(node, 2, (classes,))
    raise UseFunctionBodyError
