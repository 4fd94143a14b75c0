"""Rules for convolutions of integers."""

import math

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp, SubtractOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.conv import Conv1dOp, Conv2dOp, Conv3dOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.relax.windows import (
    by_rank,
    check_convolution,
    kernel_sizes,
    onnx_window,
)
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    as_i32,
    columns,
    requantized,
    signed_weight,
    sums,
    zero_point,
)

__all__ = ["integer_conv", "per_channel"]

_CONVS = (Conv1dOp, Conv2dOp, Conv3dOp)
_I16, _I32 = dtypes.dtype("int16"), dtypes.dtype("int32")


@onnx_rule("ConvInteger", since=10)
def conv_integer(node: OnnxNode) -> ir.Value:
    """The convolution of the operands less their zero points, in integers.

    Source: ONNX ConvInteger-10.
    """
    x, weight = node.input(0), node.input(1)
    return integer_conv(node, x, weight, zero_point(node, 2), zero_point(node, 3))


@onnx_rule("com.microsoft::QLinearConv", since=1)
@onnx_rule("QLinearConv", since=10)
def qlinear_conv(node: OnnxNode) -> ir.Value:
    """:func:`conv_integer` and a bias, scaled and rounded to the type of the zero point.

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
    y = integer_conv(node, x, weight, zero_point(node, 2), zero_point(node, 5))
    bias = node.optional(8)
    if bias is not None:
        y = AddOp(y, per_channel(bias, y, axis=1)).z
    weight_scale = per_channel(node.input(4), y, axis=1)
    x_scale = columns(node.input(1))
    scale = MultiplyOp(as_f32(x_scale), as_f32(weight_scale)).z
    y_scale, y_zero = columns(node.input(6)), columns(node.input(7))
    return requantized(node, y, scale, y_scale, y_zero)


def integer_conv(
    node: OnnxNode,
    x: ir.Value,
    weight: ir.Value,
    x_zero: ir.Value | None,
    weight_zero: ir.Value | None,
) -> ir.Value:
    """The convolution of x - x_zero and weight - weight_zero in i32, which may wrap.

    It is of both as they are, for which machines have instructions, x padded with its zero
    point; what the zero points add is taken off again.
    """
    check_convolution(node)
    index = 3 if node.op_type.endswith("QLinearConv") else 1
    kernel = kernel_sizes(node, weight, index)
    weight, weight_zero = signed_weight(node, weight, weight_zero)
    groups = node.attr("group", 1)
    sizes = [size for size in tensors.shape_of(weight)[1:] if isinstance(size, int)]
    is_known = len(sizes) == len(tensors.shape_of(weight)) - 1
    if weight_zero is not None and (groups != 1 or not is_known):
        weight, weight_zero = _less_zero(weight, weight_zero), None
    known = node.constants(weight)
    x_zero = columns(x_zero)
    shifted = x if x_zero is None else SubtractOp(x, x_zero).z
    padded, attrs = onnx_window(node, shifted, kernel, fill=0.0)
    if x_zero is not None:
        padded = _padded(padded, attrs.pop("padding"))
        padded = x if padded == shifted else AddOp(padded, x_zero).z
    op = by_rank(_CONVS, len(kernel))
    y = op(padded, weight, groups=groups, out_dtype=_I32, **attrs).y
    if x_zero is not None:
        total = sums(node, weight, range(1, len(kernel) + 2), known)
        added = MultiplyOp(as_i32(x_zero), total).z
        y = SubtractOp(y, per_channel(added, y, axis=1)).z
    if weight_zero is None:
        return y
    one = node.constant(np.ones((1, *sizes), np.int8))
    window = op(padded, one, groups=1, out_dtype=_I32, **attrs).y
    if x_zero is not None:
        count = node.constant(np.array(math.prod(sizes), np.int32))
        window = SubtractOp(window, MultiplyOp(as_i32(x_zero), count).z).z
    zero = per_channel(as_i32(weight_zero), y, axis=1)
    return SubtractOp(y, MultiplyOp(window, zero).z).z


def _less_zero(weight: ir.Value, zero: ir.Value) -> ir.Value:
    """A weight less its zero point, in two bytes an element."""
    zero = per_channel(zero, weight, axis=0)
    wide, zero = (AstypeOp(v, dtype=_I16).y for v in (weight, zero))
    return SubtractOp(wide, zero).z


def _padded(x: ir.Value, pads: list[int]) -> ir.Value:
    """``x`` with zeros around its spatial axes."""
    if not any(pads):
        return x
    rank = len(pads) // 2
    whole = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
    return PadOp(x, pad_width=pad_widths(whole)).y


def per_channel(values: ir.Value, like: ir.Value, axis: int) -> ir.Value:
    """One value for all, or one per index of an axis in a shape that broadcasts.

    Raises:
        ValueError: there are more or fewer.
    """
    shape = tensors.shape_of(values)
    count = math.prod(shape)
    if count == 1:
        return values if not shape else ReshapeOp(values, shape=()).y
    shapes.require_equal(tensors.shape_of(like)[axis], count)
    rank = len(tensors.shape_of(like))
    return ReshapeOp(values, shape=(*[1] * axis, count, *[1] * (rank - axis - 1))).y
