"""Rules for loss functions: checks in front of the bodies that the standard gives them."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import LeftToBodyError, OnnxNode, onnx_rule
from relax_mlir.frontends.onnx.node_form import check_input_shape


@onnx_rule("SoftmaxCrossEntropyLoss", since=12)
@onnx_rule("NegativeLogLikelihoodLoss", since=12)
def class_loss(node: OnnxNode) -> ir.Value:
    """A loss of scores [n, c, ...] and a class per [n, ...], by the standard's own body.

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
    check_input_shape(node, 1, (count, *rest))
    if node.optional(2) is not None:
        check_input_shape(node, 2, (classes,))
    raise LeftToBodyError
