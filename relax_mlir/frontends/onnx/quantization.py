"""Rules that quantise numbers, and back; what all rules on quantised ones share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp, onnx_type
from relax_mlir.dialects.relax.compare import EqualOp, WhereOp
from relax_mlir.dialects.relax.linear_quantization import (
    DequantizeLinearOp,
    QuantizeLinearOp,
)
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import ReshapeOp
from relax_mlir.dialects.relax.reduce import MaxOp, MinOp, SumOp

__all__ = [
    "as_f32",
    "as_i32",
    "columns",
    "dynamically_quantized",
    "integer_product",
    "known_as_zero",
    "requantized",
    "rows",
    "signed_weight",
    "sums",
    "zero_point",
]

_MIDDLE = 128  # of bytes without a sign
_F32, _I32, _U8 = map(dtypes.dtype, ("float32", "int32", "uint8"))


@onnx_rule("com.microsoft::QuantizeLinear", since=1)
@onnx_rule("QuantizeLinear", since=10)
def quantize_linear(node: OnnxNode) -> ir.Value:
    """x / scale + zero_point, rounded, in the type of the zero point or of the attribute.

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
    return _by_scale(node, QuantizeLinearOp, (x, scale, zero), attrs)


@onnx_rule("com.microsoft::DequantizeLinear", since=1)
@onnx_rule("DequantizeLinear", since=10)
def dequantize_linear(node: OnnxNode) -> ir.Value:
    """(x - zero_point) * scale, in the type of the scale or of the attribute.

    Source: ONNX DequantizeLinear-25.
    """
    x, scale = node.input(0), node.input(1)
    zero = node.optional(2)
    if zero is None:
        zero = _zero(node, tensors.dtype_of(x))
    stated = node.attr("output_dtype", 0)
    out = onnx_type(stated) if stated else _precision(scale, None)
    return _by_scale(node, DequantizeLinearOp, (x, scale, zero), {"out_dtype": out})


def _by_scale(
    node: OnnxNode,
    op: type[QuantizeLinearOp | DequantizeLinearOp],
    operands: Sequence[ir.Value],
    attrs: Mapping[str, Any],  # Any: attributes of every kind
) -> ir.Value:
    """An operation with a scale for all, for slices, or for blocks of them."""
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
    whole = _cut(operands, axis, size) if size else None
    if whole is None:
        return op(x, *scales, axis=axis, block_size=size, **attrs).y
    return ReshapeOp(op(*whole, **attrs).y, shape=tensors.shape_of(x)).y


def _check_zero(node: OnnxNode, zero: ir.Value) -> None:
    """Floats of 8 bits have no zero point but 0."""
    type_, known = tensors.dtype_of(zero), node.constants(zero)
    is_float8 = type_.is_float and type_.bits == 8
    if is_float8 and known is not None and known.astype(np.float32).any():
        raise ValueError(f"zero point: expected 0 for {type_}, got another number")


def _cut(operands: Sequence[ir.Value], axis: int, size: int) -> list[ir.Value] | None:
    """The operands with an axis for blocks, so that a loop over one has one scale.

    None if the last block is not whole, or a scale not one of blocks.
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
    """The type that a scale is in; powers of two leave it to the numbers."""
    found = tensors.dtype_of(scale)
    if found.is_float and not found.is_narrow:
        return found
    given = _F32 if x is None else tensors.dtype_of(x)
    return given if given.is_float else _F32


def _zero(node: OnnxNode, type_: DType) -> ir.Value:
    return node.constant(np.zeros((), type_.numpy))


@onnx_rule("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: OnnxNode) -> list[ir.Value]:
    """Bytes, by the least and the largest element.

    Source: ONNX DynamicQuantizeLinear-11.
    """
    return list(dynamically_quantized(node, node.input(0)))


def dynamically_quantized(
    node: OnnxNode, x: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``x`` as u8, its scale and its zero point, by its least and its largest element.

    The scale of zeros alone, and of no element, is 1, as in onnxruntime; the standard's
    formula gives 0, which nothing can be divided by.

    Source: ONNX DynamicQuantizeLinear-11.
    """
    zero, steps = (node.constant(np.full((), v, np.float32)) for v in (0, 255))
    least, most = MinimumOp(MinOp(x).y, zero).z, MaximumOp(MaxOp(x).y, zero).z
    span = SubtractOp(most, least).z
    scale = DivideOp(WhereOp(EqualOp(span, zero).z, steps, span).z, steps).z
    byte = node.constant(np.zeros((), np.uint8))
    shift = QuantizeLinearOp(SubtractOp(zero, least).z, scale, byte).y
    return QuantizeLinearOp(x, scale, shift).y, scale, shift


def zero_point(node: OnnxNode, index: int) -> ir.Value | None:
    """A zero point, unless it is left out or known to be 0."""
    value = node.optional(index)
    return None if value is None or known_as_zero(node, value) else value


def known_as_zero(node: OnnxNode, value: ir.Value) -> bool:
    """Whether a zero point is a constant, and 0."""
    known = node.constants(value)
    return known is not None and not known.astype(np.int32).any()


def signed_weight(
    node: OnnxNode, weight: ir.Value, zero: ir.Value | None
) -> tuple[ir.Value, ir.Value | None]:
    """A constant weight of bytes from 0 to 255 around 128 as one around 0, and its zero."""
    known = node.constants(weight)
    zeros = None if zero is None else node.constants(zero)
    if known is None or zeros is None:
        return weight, zero
    if known.dtype != np.uint8 or np.any(zeros != _MIDDLE):
        return weight, zero
    return node.constant((known ^ _MIDDLE).view(np.int8)), None


def integer_product(
    node: OnnxNode,
    a: ir.Value,
    b: ir.Value,
    a_zero: ir.Value | None,
    b_zero: ir.Value | None,
) -> ir.Value:
    """(a - a_zero) @ (b - b_zero) in i32, which may wrap.

    The product itself is of the operands as they are, which machines have instructions
    for; the zero points come in by sums of rows and columns.

    Args:
        node: what the operands belong to.
        a, b: matrices, batches of them, or vectors.
        a_zero, b_zero: in shapes that broadcast to the operands, one for all of what is
            summed; None for 0.
    """
    b, b_zero = signed_weight(node, b, b_zero)
    shape = shapes.matmul(tensors.shape_of(a), tensors.shape_of(b))
    left, right = _matrix(a, 0), _matrix(b, 1)
    y = MatmulOp(left, right, out_dtype=_I32).z
    if a_zero is not None:
        total = sums(node, right, (-2,), known=node.constants(b))
        y = SubtractOp(y, MultiplyOp(as_i32(a_zero), total).z).z
    if b_zero is not None:
        moved = as_i32(left)
        if a_zero is not None:
            moved = SubtractOp(moved, as_i32(a_zero)).z
        y = SubtractOp(y, MultiplyOp(sums(node, moved, (-1,)), as_i32(b_zero)).z).z
    return y if tensors.shape_of(y) == shape else ReshapeOp(y, shape=shape).y


def _matrix(x: ir.Value, axis: int) -> ir.Value:
    """A vector as a matrix of one row (axis 0) or column (axis 1)."""
    shape = tensors.shape_of(x)
    if len(shape) != 1:
        return x
    return ReshapeOp(x, shape=(*shape[:axis], 1, *shape[axis:])).y


def sums(
    node: OnnxNode,
    x: ir.Value,
    axes: Sequence[int],
    known: np.ndarray | None = None,
) -> ir.Value:
    """Sums along axes, which stay with size 1, in i32; of a constant a constant.

    Args:
        node: what ``x`` belongs to.
        x: integers.
        axes: at least one.
        known: what ``x`` is, if that is known. Constant folding would not do, as i32
            it is too large.
    """
    if known is not None:
        whole = known.reshape(tensors.shape_of(x))
        total = whole.sum(tuple(axes), dtype=np.int32, keepdims=True)
        return node.constant(total)
    return SumOp(as_i32(x), axis=tuple(axes), keepdims=True).y


def rows(value: ir.Value | None, a: ir.Value) -> ir.Value | None:
    """A scale or zero point of the rows of ``a``, in a shape that broadcasts to them."""
    shape = () if value is None else tensors.shape_of(value)
    if len(shape) != 1 or len(tensors.shape_of(a)) < 2:
        return columns(value)
    return ReshapeOp(value, shape=(*shape, 1)).y


def columns(value: ir.Value | None) -> ir.Value | None:
    """A scale or zero point of columns, in a shape that broadcasts to a matrix."""
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
    """i32 in steps of ``scale`` as steps of ``y_scale``, in the type of ``y_zero``."""
    factor = DivideOp(scale, as_f32(y_scale)).z
    steps = MultiplyOp(as_f32(x), factor).z
    one = node.constant(np.ones((), np.float32))
    return QuantizeLinearOp(steps, one, y_zero).y


def as_i32(x: ir.Value) -> ir.Value:
    """The same numbers as i32."""
    return x if tensors.dtype_of(x) == _I32 else AstypeOp(x, dtype=_I32).y


def as_f32(x: ir.Value) -> ir.Value:
    """The same numbers as f32."""
    return x if tensors.dtype_of(x) == _F32 else AstypeOp(x, dtype=_F32).y
