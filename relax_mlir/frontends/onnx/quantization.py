"""Rules for quantization and dequantization, and helpers for the rules of quantized ops."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.compare import EqualOp, WhereOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.quantize_linear import (
    DequantizeLinearOp,
    QuantizeLinearOp,
)
from relax_mlir.dialects.relax.reduce import MaxOp, MinOp, SumOp

__all__ = [
    "as_f32",
    "as_i32",
    "axis_sums",
    "column_parameter",
    "dynamically_quantized",
    "integer_matmul",
    "known_as_zero",
    "requantized",
    "row_parameter",
    "signed_weight",
    "zero_point_operand",
]

_MIDDLE = 128  # zero point of u8 that corresponds to 0 in i8
_F32, _I32, _U8 = map(dtypes.dtype, ("float32", "int32", "uint8"))


@onnx_rule("com.microsoft::QuantizeLinear", since=1)
@onnx_rule("QuantizeLinear", since=10)
def quantize_linear(node: OnnxNode) -> ir.Value:
    """Quantization: round(x / scale) + zero_point, in the zero point's or the attribute's type.

    Source: ONNX QuantizeLinear-25.
    """
    x, scale = node.input(0), node.input(1)
    zero = node.optional(2)
    stated = node.attr("output_dtype", 0)
    out = onnx_type(stated) if stated else None
    if zero is None:
        zero = _zero(node, out or _U8)
    elif out is not None and out != tensors.dtype_of(zero):
        raise ValueError(
            f"output_dtype: expected the type of the zero point, "
            f"{tensors.dtype_of(zero)}, got {out}"
        )
    precision = node.attr("precision", 0)
    attrs = {
        "saturate": node.flag("saturate", default=True),
        "precision": onnx_type(precision) if precision else _precision(scale, x),
    }
    return _emit_scaled(node, QuantizeLinearOp, (x, scale, zero), attrs)


@onnx_rule("com.microsoft::DequantizeLinear", since=1)
@onnx_rule("DequantizeLinear", since=10)
def dequantize_linear(node: OnnxNode) -> ir.Value:
    """Dequantization: (x - zero_point) * scale, in the scale's or the attribute's type.

    Source: ONNX DequantizeLinear-25.
    """
    x, scale = node.input(0), node.input(1)
    zero = node.optional(2)
    if zero is None:
        zero = _zero(node, tensors.dtype_of(x))
    stated = node.attr("output_dtype", 0)
    out = onnx_type(stated) if stated else _precision(scale, None)
    return _emit_scaled(node, DequantizeLinearOp, (x, scale, zero), {"out_dtype": out})


def _emit_scaled(
    node: OnnxNode,
    op: type[QuantizeLinearOp | DequantizeLinearOp],
    operands: Sequence[ir.Value],
    attrs: Mapping[str, Any],  # Any: attributes of every kind
) -> ir.Value:
    """A (de)quantization per tensor, per axis or per block."""
    x, *scales = operands
    size = node.attr("block_size", 0)
    if size < 0:
        raise ValueError(f"block_size: expected 0 or more, got {size}")
    _check_zero(node, scales[1])
    sizes = [tensors.shape_of(v) for v in scales]
    if all(dim == 1 for found in sizes for dim in found):
        return op(x, *scales, **attrs).y
    axis = shapes.check_axis(node.attr("axis", 1), len(tensors.shape_of(x)))
    if not size and len(sizes[0]) != 1:
        raise ValueError(
            f"scale: expected one axis without `block_size`, got shape "
            f"{shapes.format_shape(sizes[0])}"
        )
    blocked = _blocked(operands, axis, size) if size else None
    if blocked is None:
        return op(x, *scales, axis=axis, block_size=size, **attrs).y
    return ReshapeOp(op(*blocked, **attrs).y, shape=tensors.shape_of(x)).y


def _check_zero(node: OnnxNode, zero: ir.Value) -> None:
    """Check that the zero point of an 8-bit float type is 0."""
    type_, known = tensors.dtype_of(zero), node.constants(zero)
    is_float8 = type_.is_float and type_.bits == 8
    if is_float8 and known is not None and known.astype(np.float32).any():
        raise ValueError(f"zero point: expected 0 for {type_}, got another number")


def _blocked(
    operands: Sequence[ir.Value], axis: int, size: int
) -> list[ir.Value] | None:
    """The operands with the axis split into blocks, so that scales broadcast.

    None if the last block is partial, or a scale does not have one element per block.
    """
    x, *scales = operands
    shape = tensors.shape_of(x)
    before, after = shape[:axis], shape[axis + 1 :]
    if shapes.mod(shape[axis], size) != 0:
        return None
    blocks = shapes.floordiv(shape[axis], size)
    found = [ReshapeOp(x, shape=(*before, blocks, size, *after)).y]
    for scale in scales:
        given = tensors.shape_of(scale)
        if given not in ((), (*before, blocks, *after)):
            return None
        spread = (*before, blocks, 1, *after)
        found.append(ReshapeOp(scale, shape=spread).y if given else scale)
    return found


def _precision(scale: ir.Value, x: ir.Value | None) -> DType:
    """The type to compute in: that of the scale, or of x for power-of-two scales."""
    found = tensors.dtype_of(scale)
    if found.is_float and not found.is_narrow:
        return found
    given = _F32 if x is None else tensors.dtype_of(x)
    return given if given.is_float else _F32


def _zero(node: OnnxNode, type_: DType) -> ir.Value:
    return node.constant(np.zeros((), type_.numpy))


@onnx_rule("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: OnnxNode) -> list[ir.Value]:
    """Quantization to u8 by the minimum and maximum of the input.

    Source: ONNX DynamicQuantizeLinear-11.
    """
    return list(dynamically_quantized(node, node.input(0)))


def dynamically_quantized(
    node: OnnxNode, x: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``x`` as u8, its scale and its zero point, by its minimum and maximum.

    The scale of an all-zero or empty tensor is 1, as in onnxruntime; the standard's
    formula gives 0, and a division by it.

    Source: ONNX DynamicQuantizeLinear-11.
    """
    zero, steps = (node.constant(np.full((), v, np.float32)) for v in (0, 255))
    least, most = MinimumOp(MinOp(x).y, zero).z, MaximumOp(MaxOp(x).y, zero).z
    span = SubtractOp(most, least).z
    scale = DivideOp(WhereOp(EqualOp(span, zero).z, steps, span).z, steps).z
    byte = node.constant(np.zeros((), np.uint8))
    shift = QuantizeLinearOp(SubtractOp(zero, least).z, scale, byte).y
    return QuantizeLinearOp(x, scale, shift).y, scale, shift


def zero_point_operand(node: OnnxNode, index: int) -> ir.Value | None:
    """A zero point input; None if it is omitted or a constant 0."""
    value = node.optional(index)
    return None if value is None or known_as_zero(node, value) else value


def known_as_zero(node: OnnxNode, value: ir.Value) -> bool:
    """Whether a zero point is a constant 0."""
    known = node.constants(value)
    return known is not None and not known.astype(np.int32).any()


def signed_weight(
    node: OnnxNode, weight: ir.Value, zero: ir.Value | None
) -> tuple[ir.Value, ir.Value | None]:
    """A constant u8 weight with zero point 128 as i8 with zero point 0; else unchanged."""
    known = node.constants(weight)
    zeros = None if zero is None else node.constants(zero)
    if known is None or zeros is None:
        return weight, zero
    if known.dtype != np.uint8 or np.any(zeros != _MIDDLE):
        return weight, zero
    return node.constant((known ^ _MIDDLE).view(np.int8)), None


def integer_matmul(
    node: OnnxNode,
    a: ir.Value,
    b: ir.Value,
    a_zero: ir.Value | None,
    b_zero: ir.Value | None,
) -> ir.Value:
    """Integer matmul (a - a_zero) @ (b - b_zero) in i32, which may wrap.

    The matmul itself uses the raw operands, which dot-product instructions support; row
    and column sums correct for the zero points.

    Args:
        node: creates constants.
        a, b: matrices, batches of them, or vectors.
        a_zero, b_zero: zero points, broadcastable to the operands and constant along K;
            None for 0.
    """
    b, b_zero = signed_weight(node, b, b_zero)
    shape = shapes.matmul(tensors.shape_of(a), tensors.shape_of(b))
    left, right = _matrix(a, 0), _matrix(b, 1)
    y = MatmulOp(left, right, out_dtype=_I32).z
    if a_zero is not None:
        total = axis_sums(node, right, (-2,), known=node.constants(b))
        y = SubtractOp(y, MultiplyOp(as_i32(a_zero), total).z).z
    if b_zero is not None:
        shifted = as_i32(left)
        if a_zero is not None:
            shifted = SubtractOp(shifted, as_i32(a_zero)).z
        total = axis_sums(node, shifted, (-1,))
        y = SubtractOp(y, MultiplyOp(total, as_i32(b_zero)).z).z
    return y if tensors.shape_of(y) == shape else ReshapeOp(y, shape=shape).y


def _matrix(x: ir.Value, axis: int) -> ir.Value:
    """A vector as a matrix of one row (axis 0) or column (axis 1)."""
    shape = tensors.shape_of(x)
    if len(shape) != 1:
        return x
    return ReshapeOp(x, shape=(*shape[:axis], 1, *shape[axis:])).y


def axis_sums(
    node: OnnxNode,
    x: ir.Value,
    axes: Sequence[int],
    known: np.ndarray | None = None,
) -> ir.Value:
    """Sums in i32 along axes, which are kept; a constant if ``x`` is one.

    Args:
        node: creates constants.
        x: integers.
        axes: at least one.
        known: the contents of ``x``, if constant. Constant folding skips it, because
            ``x`` as i32 exceeds its size limit.
    """
    if known is not None:
        array = known.reshape(tensors.shape_of(x))
        total = array.sum(tuple(axes), dtype=np.int32, keepdims=True)
        return node.constant(total)
    return SumOp(as_i32(x), axis=tuple(axes), keepdims=True).y


def row_parameter(value: ir.Value | None, a: ir.Value) -> ir.Value | None:
    """A scale or zero point per row of ``a``, shaped to broadcast."""
    shape = () if value is None else tensors.shape_of(value)
    if len(shape) != 1 or len(tensors.shape_of(a)) < 2:
        return column_parameter(value)
    return ReshapeOp(value, shape=(*shape, 1)).y


def column_parameter(value: ir.Value | None) -> ir.Value | None:
    """A scale or zero point per column, shaped to broadcast; one element becomes a scalar."""
    if value is None or tensors.shape_of(value) != (1,):
        return value
    return ReshapeOp(value, shape=()).y


def requantized(
    node: OnnxNode,
    x: ir.Value,
    scale: ir.Value,
    y_scale: ir.Value,
    y_zero: ir.Value,
) -> ir.Value:
    """Requantization of an i32 accumulator from ``scale`` to ``y_scale`` and ``y_zero``."""
    multiplier = DivideOp(scale, as_f32(y_scale)).z
    scaled = MultiplyOp(as_f32(x), multiplier).z
    one = node.constant(np.ones((), np.float32))
    return QuantizeLinearOp(scaled, one, y_zero).y


def as_i32(x: ir.Value) -> ir.Value:
    """``x`` cast to i32."""
    return x if tensors.dtype_of(x) == _I32 else AstypeOp(x, dtype=_I32).y


def as_f32(x: ir.Value) -> ir.Value:
    """``x`` cast to f32."""
    return x if tensors.dtype_of(x) == _F32 else AstypeOp(x, dtype=_F32).y
