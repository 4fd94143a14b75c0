"""Rules for integer convolutions."""

import math

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.window_attributes import (
    check_convolution,
    kernel_sizes,
    onnx_window,
    select_by_rank,
)
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    as_i32,
    axis_sums,
    column_parameter,
    requantized,
    signed_weight,
    zero_point_operand,
)

__all__ = ["integer_conv", "per_channel"]

_CONVS = (Conv1dOp, Conv2dOp, Conv3dOp)
_I16, _I32 = dtypes.dtype("int16"), dtypes.dtype("int32")


@onnx_rule("ConvInteger", since=10)
def conv_integer(node: OnnxNode) -> ir.Value:
    """Integer convolution of the operands minus their zero points, in i32.

    Source: ONNX ConvInteger-10.
    """
    x, weight = node.input(0), node.input(1)
    return integer_conv(
        node, x, weight, zero_point_operand(node, 2), zero_point_operand(node, 3)
    )


@onnx_rule("com.microsoft::QLinearConv", since=1)
@onnx_rule("QLinearConv", since=10)
def qlinear_conv(node: OnnxNode) -> ir.Value:
    """Integer convolution with bias, requantized to the type of the output's zero point.

    Source: ONNX QLinearConv-10.
    """
    if node.flag("channels_last", default=False):
        raise NotImplementedError("attribute `channels_last`: expected 0, got 1")
    for index in (4, 5):
        steps = node.optional(index)
        if steps is not None and len(tensors.shape_of(steps)) > 1:
            got = shapes.format_shape(tensors.shape_of(steps))
            raise ValueError(f"input {index}: expected rank 0 or 1, got {got}")
    x, weight = node.input(0), node.input(3)
    y = integer_conv(
        node, x, weight, zero_point_operand(node, 2), zero_point_operand(node, 5)
    )
    bias = node.optional(8)
    if bias is not None:
        y = AddOp(y, per_channel(bias, y, axis=1)).z
    weight_scale = per_channel(node.input(4), y, axis=1)
    x_scale = column_parameter(node.input(1))
    scale = MultiplyOp(as_f32(x_scale), as_f32(weight_scale)).z
    y_scale, y_zero = column_parameter(node.input(6)), column_parameter(node.input(7))
    return requantized(node, y, scale, y_scale, y_zero)


def integer_conv(
    node: OnnxNode,
    x: ir.Value,
    weight: ir.Value,
    x_zero: ir.Value | None,
    weight_zero: ir.Value | None,
) -> ir.Value:
    """Integer convolution of x - x_zero and weight - weight_zero in i32, which may wrap.

    The convolution itself uses the raw operands, which dot-product instructions support,
    with x padded by its zero point; the contributions of the zero points are subtracted.
    """
    check_convolution(node)
    index = 3 if node.op_type.endswith("QLinearConv") else 1
    kernel = kernel_sizes(node, weight, index)
    weight, weight_zero = signed_weight(node, weight, weight_zero)
    groups = node.attr("group", 1)
    sizes = [size for size in tensors.shape_of(weight)[1:] if isinstance(size, int)]
    is_known = len(sizes) == len(tensors.shape_of(weight)) - 1
    if weight_zero is not None and (groups != 1 or not is_known):
        weight, weight_zero = _minus_zero_point(weight, weight_zero), None
    known = node.constants(weight)
    x_zero = column_parameter(x_zero)
    shifted = x if x_zero is None else SubtractOp(x, x_zero).z
    padded, attrs = onnx_window(node, shifted, kernel, fill=0.0)
    if x_zero is not None:
        padded = _padded(padded, attrs.pop("padding"))
        padded = x if padded == shifted else AddOp(padded, x_zero).z
    op = select_by_rank(_CONVS, len(kernel))
    y = op(padded, weight, groups=groups, out_dtype=_I32, **attrs).y
    if x_zero is not None:
        total = axis_sums(node, weight, range(1, len(kernel) + 2), known)
        contribution = MultiplyOp(as_i32(x_zero), total).z
        y = SubtractOp(y, per_channel(contribution, y, axis=1)).z
    if weight_zero is None:
        return y
    one = node.constant(np.ones((1, *sizes), np.int8))
    window = op(padded, one, groups=1, out_dtype=_I32, **attrs).y
    if x_zero is not None:
        count = node.constant(np.array(math.prod(sizes), np.int32))
        window = SubtractOp(window, MultiplyOp(as_i32(x_zero), count).z).z
    zero = per_channel(as_i32(weight_zero), y, axis=1)
    return SubtractOp(y, MultiplyOp(window, zero).z).z


def _minus_zero_point(weight: ir.Value, zero: ir.Value) -> ir.Value:
    """A weight minus its zero point, as i16."""
    zero = per_channel(zero, weight, axis=0)
    wide, zero = (AstypeOp(v, dtype=_I16).y for v in (weight, zero))
    return SubtractOp(wide, zero).z


def _padded(x: ir.Value, pads: list[int]) -> ir.Value:
    """``x`` with its spatial axes padded by zeros."""
    if not any(pads):
        return x
    rank = len(pads) // 2
    whole = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
    return PadOp(x, pad_width=pad_widths(whole)).y


def per_channel(values: ir.Value, like: ir.Value, axis: int) -> ir.Value:
    """A per-tensor or per-channel value, shaped to broadcast along an axis of ``like``.

    Raises:
        ValueError: the number of values is neither 1 nor the size of the axis.
    """
    shape = tensors.shape_of(values)
    count = math.prod(shape)
    if count == 1:
        return values if not shape else ReshapeOp(values, shape=()).y
    shapes.require_equal(tensors.shape_of(like)[axis], count)
    rank = len(tensors.shape_of(like))
    return ReshapeOp(values, shape=(*[1] * axis, count, *[1] * (rank - axis - 1))).y
