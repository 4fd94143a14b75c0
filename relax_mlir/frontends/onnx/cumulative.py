"""Rules for cumulative sums and products (scans)."""

from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cumulative import (
    CumprodOp,
    CumsumOp,
    CumulativeOp,
    ReverseCumprodOp,
    ReverseCumsumOp,
)


@onnx_rule("CumSum", since=11)
def cumsum(node: OnnxNode) -> ir.Value:
    """Cumulative sum from the first or from the last element.

    Source: ONNX CumSum-14.
    """
    return _cumulative(node, CumsumOp, ReverseCumsumOp)


@onnx_rule("CumProd", since=26)
def cumprod(node: OnnxNode) -> ir.Value:
    """Cumulative product from the first or from the last element.

    Source: ONNX CumProd-26.
    """
    return _cumulative(node, CumprodOp, ReverseCumprodOp)


def _cumulative(
    node: OnnxNode, forward: type[CumulativeOp], backward: type[CumulativeOp]
) -> ir.Value:
    op = backward if node.flag("reverse", default=False) else forward
    axis, exclusive = int(node.scalar(1)), node.flag("exclusive", default=False)
    return op(node.input(0), axis=axis, exclusive=exclusive).y
