"""Rules for elementwise operators without a single Relax counterpart."""

import math
from functools import reduce
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    ClipOp,
    DivideOp,
    FloorModOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MultiplyOp,
)
from relax_mlir.dialects.relax.bitwise import LeftShiftOp, RightShiftOp
from relax_mlir.dialects.relax.compare import EqualOp, IsinfOp, LessOp
from relax_mlir.dialects.relax.exp_log import PowerOp

_LARGEST = float(np.finfo(np.float32).max)
_EXACT = 2**53  # integers up to here are exact in float64, the type of attributes


def _reduce_inputs(
    node: OnnxNode, op: Any
) -> ir.Value:  # Any: the class of a binary operator
    inputs = [node.input(index) for index in range(len(node.inputs))]
    return reduce(lambda x, y: op(x, y).z, inputs)


@onnx_rule("Sum", since=6)
def total(node: OnnxNode) -> ir.Value:
    """Elementwise sum of the inputs."""
    return _reduce_inputs(node, AddOp)


@onnx_rule("Max", since=6)
def maximum(node: OnnxNode) -> ir.Value:
    """Elementwise maximum of the inputs."""
    return _reduce_inputs(node, MaximumOp)


@onnx_rule("Min", since=6)
def minimum(node: OnnxNode) -> ir.Value:
    """Elementwise minimum of the inputs."""
    return _reduce_inputs(node, MinimumOp)


@onnx_rule("Mean", since=6)
def mean(node: OnnxNode) -> ir.Value:
    """Elementwise mean of the inputs."""
    sum_ = _reduce_inputs(node, AddOp)
    if len(node.inputs) == 1:
        return sum_
    count = np.array(len(node.inputs)).astype(tensors.dtype_of(sum_).numpy)
    return DivideOp(sum_, node.constant(count)).z


@onnx_rule("Clip", since=6)
def clip_to_attributes(node: OnnxNode) -> ir.Value:
    """Clip to limits that are attributes; by default the finite range of f32.

    Source: ONNX Clip-6.
    """
    low, high = node.attr("min", -_LARGEST), node.attr("max", _LARGEST)
    return ClipOp(node.input(0), min=low, max=high).y


@onnx_rule("Clip", since=11)
def clip_to_inputs(node: OnnxNode) -> ir.Value:
    """Clip to limits that are inputs, often constant.

    Source: ONNX Clip-13.
    """
    x = node.input(0)
    dtype = tensors.dtype_of(x)
    low, high = _limit(node, 1, dtype, -math.inf), _limit(node, 2, dtype, math.inf)
    if low is not None and high is not None:
        is_open = low == -math.inf and high == math.inf
        return x if is_open else ClipOp(x, min=low, max=high).y
    for index, op in ((1, MaximumOp), (2, MinimumOp)):
        limit = node.optional(index)
        x = x if limit is None else op(x, limit).z
    return x


def _limit(node: OnnxNode, index: int, dtype: DType, absent: float) -> float | None:
    """A limit as an attribute; None if it is not constant, or not exact in float64."""
    if index >= len(node.inputs) or node.inputs[index] is None:
        return absent
    array = node.constant_or_none(index)
    if array is None or array.size != 1:
        return None
    value = array.reshape(-1)[0].item()
    return float(value) if dtype.is_float or abs(value) <= _EXACT else None


@onnx_rule("Pow", since=7)
def power(node: OnnxNode) -> ir.Value:
    """x to the power of y; constant exponents 2 and 3 become multiplications.

    Source: ONNX Pow-15.
    """
    base, exponent = node.input(0), node.input(1)
    known = node.constants(exponent)
    rank = len(tensors.shape_of(base))
    if known is not None and known.size == 1 and known.ndim <= rank:
        if known.item() == 2:  # as in a decomposed normalization
            return MultiplyOp(base, base).z
        if known.item() == 3:
            return MultiplyOp(MultiplyOp(base, base).z, base).z
    return PowerOp(base, exponent).z


@onnx_rule("Mod", since=10)
def mod(node: OnnxNode) -> ir.Value:
    """Remainder with the sign of the dividend (``fmod``) or of the divisor.

    Source: ONNX Mod-28.
    """
    op = ModOp if node.flag("fmod", default=False) else FloorModOp
    return op(node.input(0), node.input(1)).z


@onnx_rule("BitShift", since=11)
def bit_shift(node: OnnxNode) -> ir.Value:
    """Bitwise shift to the left or to the right.

    Source: ONNX BitShift-28.
    """
    ops = {"LEFT": LeftShiftOp, "RIGHT": RightShiftOp}
    direction = node.attr("direction")
    if direction not in ops:
        raise ValueError(f"bad direction: expected LEFT or RIGHT, got {direction!r}")
    return ops[direction](node.input(0), node.input(1)).z


@onnx_rule("IsInf", since=10)
def is_inf(node: OnnxNode) -> ir.Value:
    """Elementwise test for infinities of both signs or of one.

    Source: ONNX IsInf-20.
    """
    x = node.input(0)
    signs = {"detect_negative": -np.inf, "detect_positive": np.inf}
    infinities = [value for name, value in signs.items() if node.attr(name, 1)]
    if len(infinities) == 2:
        return IsinfOp(x).y
    if not infinities:
        return LessOp(x, x).z
    infinity = node.constant(np.array(infinities[0]).astype(tensors.dtype_of(x).numpy))
    return EqualOp(x, infinity).z
