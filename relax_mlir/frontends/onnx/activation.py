"""Rules for activation functions whose ONNX operators have more attributes than Relax's."""

import math

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.activation import (
    GeluOp,
    GeluTanhOp,
    SigmoidOp,
    SiluOp,
    SoftplusOp,
)
from relax_mlir.dialects.relax.arithmetic import MultiplyOp
from relax_mlir.dialects.relax.relu import SELU_ALPHA, SELU_GAMMA, EluOp, SeluOp


@onnx_rule("Gelu", since=20)
def gelu(node: OnnxNode) -> ir.Value:
    """Gaussian error linear unit, exact (erf) or by the tanh approximation.

    Source: ONNX Gelu-20.
    """
    ops = {"none": GeluOp, "tanh": GeluTanhOp}
    approximate = node.attr("approximate", "none")
    if approximate not in ops:
        raise ValueError(f"bad approximate: expected none or tanh, got {approximate!r}")
    return ops[approximate](node.input(0)).y


@onnx_rule("Selu", since=6)
def selu(node: OnnxNode) -> ir.Value:
    """Scaled ELU; self-normalizing with the default alpha and gamma.

    Source: ONNX Selu-22.
    """
    x = node.input(0)
    alpha, gamma = node.attr("alpha", SELU_ALPHA), node.attr("gamma", SELU_GAMMA)
    is_usual = np.allclose([alpha, gamma], [SELU_ALPHA, SELU_GAMMA], rtol=1e-7)
    return SeluOp(x).y if is_usual else _times(node, EluOp(x, alpha=alpha).y, gamma)


@onnx_rule("Softplus", since=1)
def softplus(node: OnnxNode) -> ir.Value:
    """log(1 + e^x), without a threshold beyond which it is linear.

    Source: ONNX Softplus-22.
    """
    return SoftplusOp(node.input(0), threshold=math.inf).y


@onnx_rule("Swish", since=24)
def swish(node: OnnxNode) -> ir.Value:
    """Swish: x * sigmoid(alpha * x).

    Source: ONNX Swish-24.
    """
    x, alpha = node.input(0), node.attr("alpha", 1.0)
    if alpha == 1:
        return SiluOp(x).y
    return MultiplyOp(x, SigmoidOp(_times(node, x, alpha)).y).z


def _times(node: OnnxNode, value: ir.Value, scale: float) -> ir.Value:
    type_ = tensors.dtype_of(value).numpy
    return MultiplyOp(value, node.constant(np.array(scale).astype(type_))).z
