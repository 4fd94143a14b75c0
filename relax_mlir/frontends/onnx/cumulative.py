"""Rules for running totals."""

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cumulative import (
    CumprodOp,
    CumsumOp,
    CumulativeOp,
    ReverseCumprodOp,
    ReverseCumsumOp,
)


@onnx_rule("CumSum", since=11)
def cumsum(node: OnnxNode) -> ir.Value:
    """Sums from the first element, or from the last.

    Source: ONNX CumSum-14.
    """
    return _accumulate(node, CumsumOp, ReverseCumsumOp)


@onnx_rule("CumProd", since=26)
def cumprod(node: OnnxNode) -> ir.Value:
    """Products from the first element, or from the last.

    Source: ONNX CumProd-26.
    """
    return _accumulate(node, CumprodOp, ReverseCumprodOp)


def _accumulate(
    node: OnnxNode, forward: type[CumulativeOp], backward: type[CumulativeOp]
) -> ir.Value:
    op = backward if node.flag("reverse", default=False) else forward
    axis, exclusive = int(node.scalar(1)), node.flag("exclusive", default=False)
    return op(node.input(0), axis=axis, exclusive=exclusive).y
