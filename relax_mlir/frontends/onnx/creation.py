"""Rules for matrices that their shape tells."""

from mlir import ir

from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.cast import onnx_type
from relax_mlir.dialects.relax.creation import EyeLikeOp


@onnx_rule("EyeLike", since=9)
def eye_like(node: OnnxNode) -> ir.Value:
    """Ones on a diagonal.

    Source: ONNX EyeLike-22.
    """
    type_ = onnx_type(node.attr("dtype")) if "dtype" in node.attrs else None
    return EyeLikeOp(node.input(0), k=node.attr("k", 0), dtype=type_).y
