"""Integer matmul and convolution of dequantized operands (QDQ models).

Models in QDQ format put QuantizeLinear and DequantizeLinear around every operator; their
matmuls and convolutions run in integers here. Integer sums are exact, where float sums
are rounded. A cast of int8 weights followed by a multiplication is recognised, too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode
from relax_mlir.dialects.relax.arithmetic import MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.quantize_linear import DequantizeLinearOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    column_parameter,
    integer_matmul,
    known_as_zero,
)
from relax_mlir.frontends.onnx.quantized_conv import integer_conv, per_channel

__all__ = ["dequantized_conv", "dequantized_matmul"]

_F32 = dtypes.dtype("float32")
_BYTES = ("int8", "uint8")
_LONGEST = (
    2**31 // 255**2
)  # largest K for which a sum of products of bytes cannot overflow i32


@dataclass(frozen=True)
class _Quantized:
    """A dequantized value: (x - zero) * scale.

    Attributes:
        x: the quantized value, int8 or uint8.
        scale: a scalar, or one per index of ``axis``.
        zero: the zero point, of the same shape as ``scale``; None if it is 0.
        axis: None for per-tensor quantization.
    """

    x: ir.Value
    scale: ir.Value
    zero: ir.Value | None
    axis: int | None


def dequantized_matmul(node: OnnxNode, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Matmul ``a @ b`` in f32, if ``b`` is dequantized per tensor or per column.

    If ``a`` is dequantized, too, it is an integer matmul. Otherwise it is a float matmul
    with int8 weights (weight-only quantization), which needs a zero point of 0.
    """
    right = _quantized(node, b)
    shape = tensors.shape_of(b)
    if right is None or right.axis not in (None, len(shape) - 1) or len(shape) < 2:
        return None
    left = _quantized(node, a)
    if left is None:
        if right.zero is not None or tensors.dtype_of(a) != _F32:
            return None
        return MultiplyOp(MatmulOp(a, right.x, out_dtype=_F32).z, right.scale).z
    if left.axis is not None or not _is_short(shape[-2:-1]):
        return None
    y = integer_matmul(node, left.x, right.x, left.zero, right.zero)
    return MultiplyOp(as_f32(y), MultiplyOp(left.scale, right.scale).z).z


def dequantized_conv(node: OnnxNode) -> ir.Value | None:
    """Convolution without bias in f32, if both operands are dequantized."""
    x, weight = node.input(0), node.input(1)
    data, kernel = _quantized(node, x), _quantized(node, weight)
    if data is None or kernel is None or data.axis is not None:
        return None
    if kernel.axis not in (None, 0) or not _is_short(tensors.shape_of(weight)[1:]):
        return None
    y = integer_conv(node, data.x, kernel.x, data.zero, kernel.zero)
    scale = MultiplyOp(data.scale, per_channel(kernel.scale, y, axis=1)).z
    return MultiplyOp(as_f32(y), scale).z


def _quantized(node: OnnxNode, value: ir.Value) -> _Quantized | None:
    """The quantized form of an f32 value that was dequantized, or None."""
    op = value.owner
    if isinstance(op, PermuteDimsOp) and op.python_attrs()["axes"] == (1, 0):
        inner = _quantized(node, op.x)
        return None if inner is None else _transposed(node, inner)
    if isinstance(op, MultiplyOp):
        left, right = op.operands
        return _scaled(left, right) or _scaled(right, left)
    if not isinstance(op, DequantizeLinearOp):
        return None
    attrs = op.python_attrs()
    x, scale, zero = op.x, op.scale, op.zero_point
    if tensors.dtype_of(x).name not in _BYTES or attrs["block_size"]:
        return None
    if tensors.dtype_of(scale) != _F32 or attrs["out_dtype"] != _F32:
        return None
    shapes = [tensors.shape_of(v) for v in (scale, zero)]
    if any(len(shape) > 1 for shape in shapes):
        return None
    rank = len(tensors.shape_of(x))
    is_one = all(size == 1 for shape in shapes for size in shape)
    axis = None if is_one else attrs["axis"] % rank
    if known_as_zero(node, zero):
        return _Quantized(x, column_parameter(scale), None, axis)
    return _Quantized(x, column_parameter(scale), column_parameter(zero), axis)


def _scaled(cast: ir.Value, scale: ir.Value) -> _Quantized | None:
    """A cast of bytes to f32, times one scale or one per column."""
    op = cast.owner
    if not isinstance(op, AstypeOp) or tensors.dtype_of(cast) != _F32:
        return None
    x, shape = op.x, tensors.shape_of(cast)
    if tensors.dtype_of(x).name not in _BYTES or tensors.dtype_of(scale) != _F32:
        return None
    sizes = tensors.shape_of(scale)
    if len(sizes) > len(shape):  # broadcasting would add axes
        return None
    if all(size == 1 for size in sizes):
        return _Quantized(x, ReshapeOp(scale, shape=()).y, None, None)
    is_per_column = sizes[-1] == shape[-1] and all(size == 1 for size in sizes[:-1])
    if not is_per_column:
        return None
    return _Quantized(x, ReshapeOp(scale, shape=sizes[-1:]).y, None, len(shape) - 1)


def _transposed(node: OnnxNode, value: _Quantized) -> _Quantized:
    """A transposed matrix; a constant stays a constant, so that its column sums fold."""
    known = node.constants(value.x)
    if known is None:
        x = PermuteDimsOp(value.x, axes=(1, 0)).y
    else:
        x = node.constant(np.ascontiguousarray(known.T))
    return replace(value, x=x, axis=None if value.axis is None else 1 - value.axis)


def _is_short(sizes: Sequence[Dim]) -> bool:
    """Whether a dot product over these axes cannot overflow i32."""
    count = math.prod(sizes)
    return isinstance(count, int) and count <= _LONGEST
