"""Rules for QLinear operators other than matmul and convolution.

They compute in floats between a DequantizeLinear and a QuantizeLinear, which fuse with
them.

Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import (
    OnnxNode,
    OnnxRule,
    find_onnx_rule,
    onnx_rule,
)
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.compare import WhereOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.quantize_linear import (
    DequantizeLinearOp,
    QuantizeLinearOp,
)

# The standard operator between the two, and its opset.
_ONE_INPUT: Mapping[str, tuple[str, int]] = {
    "QLinearAveragePool": ("AveragePool", 13),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", 13),
    "QLinearLeakyRelu": ("LeakyRelu", 13),
    "QLinearReduceMean": ("ReduceMean", 13),
    "QLinearSigmoid": ("Sigmoid", 13),
    "QLinearSoftmax": ("Softmax", 13),
}


def _rule_of(name: str, opset: int) -> OnnxRule:
    """A rule that dequantizes, applies the standard operator ``name``, and quantizes."""

    def rule(node: OnnxNode) -> ir.Value:
        if node.flag("channels_last", default=False):
            raise NotImplementedError("attribute `channels_last`: expected 0, got 1")
        inner = find_onnx_rule(name, node.attr("opset", opset))
        if inner is None:
            raise NotImplementedError(f"operator `{name}`")
        return _quantized(node, inner(replace(node, inputs=[_dequantized(node, 0)])), 3)

    return rule


for _name, _operator in _ONE_INPUT.items():
    onnx_rule(f"com.microsoft::{_name}", since=1)(_rule_of(*_operator))


@onnx_rule("com.microsoft::QLinearAdd", since=1)
def qlinear_add(node: OnnxNode) -> ir.Value:
    """Quantized addition.

    Source: com.microsoft QLinearAdd-1.
    """
    return _quantized(node, AddOp(_dequantized(node, 0), _dequantized(node, 3)).z, 6)


@onnx_rule("com.microsoft::QLinearMul", since=1)
def qlinear_mul(node: OnnxNode) -> ir.Value:
    """Quantized multiplication.

    Source: com.microsoft QLinearMul-1.
    """
    return _quantized(
        node, MultiplyOp(_dequantized(node, 0), _dequantized(node, 3)).z, 6
    )


@onnx_rule("com.microsoft::QLinearWhere", since=1)
def qlinear_where(node: OnnxNode) -> ir.Value:
    """Quantized select: x where the condition holds, else y.

    Source: com.microsoft QLinearWhere-1.
    """
    selected = WhereOp(node.input(0), _dequantized(node, 1), _dequantized(node, 4)).z
    return _quantized(node, selected, 7)


@onnx_rule("com.microsoft::QLinearConcat", since=1)
def qlinear_concat(node: OnnxNode) -> ir.Value:
    """Quantized concatenation.

    Source: com.microsoft QLinearConcat-1.
    """
    if len(node.inputs) % 3 != 2:
        raise ValueError(
            "expected a scale, a zero point, and tensors with one of each, got "
            f"{len(node.inputs)} inputs"
        )
    parts = [_dequantized(node, index) for index in range(2, len(node.inputs), 3)]
    return _quantized(node, ConcatOp(parts, axis=node.attr("axis")).y, 0)


def _dequantized(node: OnnxNode, index: int) -> ir.Value:
    """Operand ``index`` dequantized by the scale and zero point that follow it."""
    x = node.input(index)
    scale, zero = _scale_and_zero(node, index + 1, x)
    return DequantizeLinearOp(x, scale, zero).y


def _quantized(node: OnnxNode, y: ir.Value, index: int) -> ir.Value:
    """``y`` quantized by the scale, operand ``index``, and the zero point that follows it."""
    scale, zero = _scale_and_zero(node, index, node.input(0))
    return QuantizeLinearOp(y, scale, zero).y


def _scale_and_zero(
    node: OnnxNode, index: int, like: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """A scalar scale and the zero point after it; 0 of ``like``'s type if it is omitted."""
    scale = ReshapeOp(node.input(index), shape=()).y
    if node.optional(index + 1) is None:
        return scale, node.constant(np.zeros((), tensors.dtype_of(like).numpy))
    return scale, ReshapeOp(node.input(index + 1), shape=()).y
