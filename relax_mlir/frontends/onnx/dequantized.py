"""Products of numbers that are integers times a scale, as products of these integers.

Networks that say so by QuantizeLinear and DequantizeLinear around every operator run in
integers this way. Sums are exact, where those of floats are rounded. Bytes that are cast
and multiplied are another way to say it, for weights alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.hooks import OnnxNode
from relax_mlir.dialects.relax.arithmetic import MultiplyOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.linear_quantization import DequantizeLinearOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    columns,
    integer_product,
    known_as_zero,
)
from relax_mlir.frontends.onnx.quantized_conv import integer_conv, per_channel

__all__ = ["dequantized_conv", "dequantized_product"]

_F32 = dtypes.dtype("float32")
_BYTES = ("int8", "uint8")
_LONGEST = 2**31 // 255**2  # products of two bytes that i32 surely adds up


@dataclass(frozen=True)
class _Steps:
    """Numbers that are (x - zero) * scale.

    Attributes:
        x: bytes.
        scale, zero: one, or one per index of ``axis``; no zero point if it is 0.
        axis: None if there is one scale.
    """

    x: ir.Value
    scale: ir.Value
    zero: ir.Value | None
    axis: int | None


def dequantized_product(node: OnnxNode, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """a @ b in f32, if ``b`` is bytes times a scale, of which each column may have one.

    If ``a`` is bytes, too, the product is one of integers. Else it is one of floats, which
    reads a byte for a weight, if the zero point is 0.
    """
    right = _steps(node, b)
    shape = tensors.shape_of(b)
    if right is None or right.axis not in (None, len(shape) - 1) or len(shape) < 2:
        return None
    left = _steps(node, a)
    if left is None:
        if right.zero is not None or tensors.dtype_of(a) != _F32:
            return None
        return MultiplyOp(MatmulOp(a, right.x, out_dtype=_F32).z, right.scale).z
    if left.axis is not None or not _is_short(shape[-2:-1]):
        return None
    y = integer_product(node, left.x, right.x, left.zero, right.zero)
    return MultiplyOp(as_f32(y), MultiplyOp(left.scale, right.scale).z).z


def dequantized_conv(node: OnnxNode) -> ir.Value | None:
    """The convolution without bias in f32, if both operands are bytes times a scale."""
    x, weight = node.input(0), node.input(1)
    data, kernel = _steps(node, x), _steps(node, weight)
    if data is None or kernel is None or data.axis is not None:
        return None
    if kernel.axis not in (None, 0) or not _is_short(tensors.shape_of(weight)[1:]):
        return None
    y = integer_conv(node, data.x, kernel.x, data.zero, kernel.zero)
    scale = MultiplyOp(data.scale, per_channel(kernel.scale, y, axis=1)).z
    return MultiplyOp(as_f32(y), scale).z


def _steps(node: OnnxNode, value: ir.Value) -> _Steps | None:
    """What a value is the bytes and the scale of, if it is made so, and f32."""
    made = value.owner
    if isinstance(made, PermuteDimsOp) and made.python_attrs()["axes"] == (1, 0):
        inner = _steps(node, made.x)
        return None if inner is None else _transposed(node, inner)
    if isinstance(made, MultiplyOp):
        left, right = made.operands
        return _scaled(left, right) or _scaled(right, left)
    if not isinstance(made, DequantizeLinearOp):
        return None
    attrs = made.python_attrs()
    x, scale, zero = made.x, made.scale, made.zero_point
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
        return _Steps(x, columns(scale), None, axis)
    return _Steps(x, columns(scale), columns(zero), axis)


def _scaled(cast: ir.Value, scale: ir.Value) -> _Steps | None:
    """Bytes that were cast, times a number or one per column."""
    made = cast.owner
    if not isinstance(made, AstypeOp) or tensors.dtype_of(cast) != _F32:
        return None
    x, shape = made.x, tensors.shape_of(cast)
    if tensors.dtype_of(x).name not in _BYTES or tensors.dtype_of(scale) != _F32:
        return None
    sizes = tensors.shape_of(scale)
    if len(sizes) > len(shape):  # the product has more axes than the bytes
        return None
    if all(size == 1 for size in sizes):
        return _Steps(x, ReshapeOp(scale, shape=()).y, None, None)
    is_by_column = sizes[-1] == shape[-1] and all(size == 1 for size in sizes[:-1])
    if not is_by_column:
        return None
    return _Steps(x, ReshapeOp(scale, shape=sizes[-1:]).y, None, len(shape) - 1)


def _transposed(node: OnnxNode, steps: _Steps) -> _Steps:
    """A matrix turned round; a constant one as a constant, of which sums are known."""
    known = node.constants(steps.x)
    if known is None:
        x = PermuteDimsOp(steps.x, axes=(1, 0)).y
    else:
        x = node.constant(np.ascontiguousarray(known.T))
    return replace(steps, x=x, axis=None if steps.axis is None else 1 - steps.axis)


def _is_short(sizes: Sequence[Dim]) -> bool:
    """Whether so many products surely add up to what i32 holds."""
    count = math.prod(sizes)
    return isinstance(count, int) and count <= _LONGEST
