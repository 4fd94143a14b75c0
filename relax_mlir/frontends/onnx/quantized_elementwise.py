"""Rules for other operators that take quantised numbers and give some.

They compute in floats between a DequantizeLinear and a QuantizeLinear, which become one
loop with them.

Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.hooks import OnnxNode, OnnxRule, find_onnx_rule, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.compare import WhereOp
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.linear_quantization import (
    DequantizeLinearOp,
    QuantizeLinearOp,
)
from relax_mlir.dialects.relax.movement import ReshapeOp

# What stands between the two, as an operator of the standard of that opset.
_ONE_INPUT: Mapping[str, tuple[str, int]] = {
    "QLinearAveragePool": ("AveragePool", 13),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", 13),
    "QLinearLeakyRelu": ("LeakyRelu", 13),
    "QLinearReduceMean": ("ReduceMean", 13),
    "QLinearSigmoid": ("Sigmoid", 13),
    "QLinearSoftmax": ("Softmax", 13),
}


def _rule_of(name: str, opset: int) -> OnnxRule:
    """The rule around the standard's operator ``name``."""

    def rule(node: OnnxNode) -> ir.Value:
        if node.flag("channels_last", default=False):
            raise NotImplementedError("attribute `channels_last`: expected 0, got 1")
        inner = find_onnx_rule(name, node.attr("opset", opset))
        if inner is None:
            raise NotImplementedError(f"operator `{name}`")
        return _encoded(node, inner(replace(node, inputs=[_decoded(node, 0)])), 3)

    return rule


for _name, _operator in _ONE_INPUT.items():
    onnx_rule(f"com.microsoft::{_name}", since=1)(_rule_of(*_operator))


@onnx_rule("com.microsoft::QLinearAdd", since=1)
def qlinear_add(node: OnnxNode) -> ir.Value:
    """a + b.

    Source: com.microsoft QLinearAdd-1.
    """
    return _encoded(node, AddOp(_decoded(node, 0), _decoded(node, 3)).z, 6)


@onnx_rule("com.microsoft::QLinearMul", since=1)
def qlinear_mul(node: OnnxNode) -> ir.Value:
    """a * b.

    Source: com.microsoft QLinearMul-1.
    """
    return _encoded(node, MultiplyOp(_decoded(node, 0), _decoded(node, 3)).z, 6)


@onnx_rule("com.microsoft::QLinearWhere", since=1)
def qlinear_where(node: OnnxNode) -> ir.Value:
    """x where a condition holds, else y.

    Source: com.microsoft QLinearWhere-1.
    """
    chosen = WhereOp(node.input(0), _decoded(node, 1), _decoded(node, 4)).z
    return _encoded(node, chosen, 7)


@onnx_rule("com.microsoft::QLinearConcat", since=1)
def qlinear_concat(node: OnnxNode) -> ir.Value:
    """Tensors one after another.

    Source: com.microsoft QLinearConcat-1.
    """
    if len(node.inputs) % 3 != 2:
        raise ValueError(
            "expected a scale, a zero point, and tensors with one of each, got "
            f"{len(node.inputs)} inputs"
        )
    parts = [_decoded(node, index) for index in range(2, len(node.inputs), 3)]
    return _encoded(node, ConcatOp(parts, axis=node.attr("axis")).y, 0)


def _decoded(node: OnnxNode, index: int) -> ir.Value:
    """The floats that operand ``index`` stands for, by the scale and zero point after it."""
    x = node.input(index)
    scale, zero = _steps(node, index + 1, x)
    return DequantizeLinearOp(x, scale, zero).y


def _encoded(node: OnnxNode, y: ir.Value, index: int) -> ir.Value:
    """Floats as steps of the scale that operand ``index`` is, from the zero after it."""
    scale, zero = _steps(node, index, node.input(0))
    return QuantizeLinearOp(y, scale, zero).y


def _steps(node: OnnxNode, index: int, like: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A scale and the zero point after it, a number each; 0 of a type if it is left out."""
    scale = ReshapeOp(node.input(index), shape=()).y
    if node.optional(index + 1) is None:
        return scale, node.constant(np.zeros((), tensors.dtype_of(like).numpy))
    return scale, ReshapeOp(node.input(index + 1), shape=()).y
