"""Rules for nodes that hold graphs."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule


@onnx_rule("If", since=1)
def if_(node: OnnxNode) -> Sequence[ir.Value]:
    """The branch that a known condition takes, in place.

    Source: ONNX If-21.
    """
    condition = node.known(0)
    if condition.size != 1:
        raise ValueError(f"expected one condition, got {condition.size}")
    return node.body("then_branch" if condition.reshape(-1)[0] else "else_branch")
