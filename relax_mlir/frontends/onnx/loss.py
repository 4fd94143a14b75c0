"""Rules for loss functions: checks in front of the bodies that the standard gives them."""

from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import LeftToBodyError, OnnxNode, onnx_rule


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
    _check_shape(node, 1, (count, *rest))
    if node.optional(2) is not None:
        _check_shape(node, 2, (classes,))
    raise LeftToBodyError


def _check_shape(node: OnnxNode, index: int, expected: shapes.Shape) -> None:
    """Require the shape of an input, of which open sizes are checked when they are known.

    Raises:
        ValueError: it surely has another.
    """
    shape = tensors.shape_of(node.input(index))
    is_other = any(map(shapes.is_known_unequal, shape, expected))
    if len(shape) != len(expected) or is_other:
        raise ValueError(
            f"input {index}: expected {shapes.format_shape(expected)}, got "
            f"{shapes.format_shape(shape)}"
        )
    for size, want in zip(shape, expected, strict=True):
        shapes.require_equal(size, want)
