"""The rule for attention whose projections are products of integers."""

from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, MultiplyOp
from relax_mlir.dialects.relax.attention import AttentionBiasOp, AttentionOp
from relax_mlir.dialects.relax.compare import LessOp, NotEqualOp, WhereOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.slicing import StridedSliceOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.quantization import (
    as_f32,
    as_i32,
    columns,
    integer_product,
    zero_point,
)

_I32 = dtypes.dtype("int32")


@dataclass(frozen=True)
class _Sizes:
    """How an attention is cut.

    Attributes:
        batch, length: of the queries.
        heads, width: how many heads there are, and how wide one is.
    """

    batch: Dim
    length: Dim
    heads: int
    width: int


@onnx_rule("com.microsoft::QAttention", since=1)
def quantized_attention(node: OnnxNode) -> list[ir.Value]:
    """Attention of a sequence to itself, and to what came before it.

    Source: com.microsoft QAttention-1.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.attr(name, 0):
            raise NotImplementedError(f"attribute `{name}`")
    projected, sizes = _projected(node), _sizes(node)
    query, key, value = (_part(projected, number, sizes) for number in range(3))
    past = node.optional(8)
    if past is not None:
        key, value = (
            ConcatOp([_past(past, number), own], axis=1).y
            for number, own in enumerate((key, value))
        )
    present = ConcatOp([_as_present(key), _as_present(value)], axis=0).y
    attrs = {
        "causal_mask": "BottomRight" if node.attr("unidirectional", 0) else None,
        "scale": node.attr("scale", 0.0) or None,
    }
    bias = _bias(node, tensors.shape_of(key)[1])
    if bias is None:
        y = AttentionOp(query, key, value, **attrs).y
    else:
        y = AttentionBiasOp(query, key, value, bias, **attrs).y
    whole = (sizes.batch, sizes.length, sizes.heads * sizes.width)
    return [ReshapeOp(y, shape=whole).y, present]


def _projected(node: OnnxNode) -> ir.Value:
    """Queries, keys and values of all heads, side by side."""
    x, weight = node.input(0), node.input(1)
    zeros = columns(zero_point(node, 6)), columns(zero_point(node, 7))
    product = integer_product(node, x, weight, *zeros)
    scale = MultiplyOp(columns(node.input(3)), columns(node.input(4))).z
    return AddOp(MultiplyOp(as_f32(product), scale).z, node.input(2)).z


def _sizes(node: OnnxNode) -> _Sizes:
    batch, length, _ = tensors.shape_of(node.input(0))
    heads, columns_ = node.attr("num_heads"), tensors.shape_of(node.input(1))[-1]
    if not isinstance(columns_, int) or heads < 1 or columns_ % (3 * heads):
        raise ValueError(
            f"input 1: expected a multiple of 3 * {heads} columns, got {columns_}"
        )
    return _Sizes(batch, length, heads, columns_ // (3 * heads))


def _part(projected: ir.Value, number: int, sizes: _Sizes) -> ir.Value:
    """Queries, keys or values as [n, s, h, d]."""
    size = sizes.heads * sizes.width
    begin, end = number * size, (number + 1) * size
    own = StridedSliceOp(projected, axes=(2,), begin=(begin,), end=(end,)).y
    shape = (sizes.batch, sizes.length, sizes.heads, sizes.width)
    return ReshapeOp(own, shape=shape).y


def _past(past: ir.Value, number: int) -> ir.Value:
    """Keys or values of [2, n, h, t, d] as [n, t, h, d]."""
    own = StridedSliceOp(past, axes=(0,), begin=(number,), end=(number + 1,)).y
    whole = ReshapeOp(own, shape=tensors.shape_of(past)[1:]).y
    return PermuteDimsOp(whole, axes=(0, 2, 1, 3)).y


def _as_present(x: ir.Value) -> ir.Value:
    """[n, t, h, d] as [1, n, h, t, d]."""
    turned = PermuteDimsOp(x, axes=(0, 2, 1, 3)).y
    return ReshapeOp(turned, shape=(1, *tensors.shape_of(turned))).y


def _bias(node: OnnxNode, length: Dim) -> ir.Value | None:
    """What keeps queries from keys, in a shape that broadcasts to [n, h, s, t]."""
    mask = node.optional(5)
    if mask is None:
        return None
    shape = tensors.shape_of(mask)
    if len(shape) == 1:
        if shape != tensors.shape_of(node.input(0))[:1]:
            raise NotImplementedError("a mask of first and last places")
        places = ArangeOp(start=0, end=length, dtype=_I32).y
        seen = LessOp(places, ReshapeOp(as_i32(mask), shape=(*shape, 1)).y).z
        shape = tensors.shape_of(seen)
    elif len(shape) in (2, 3):
        seen = NotEqualOp(mask, node.constant(np.zeros((), np.int32))).z
    else:
        raise NotImplementedError(f"a mask of shape {shapes.format_shape(shape)}")
    zero, least = (
        node.constant(np.array(number, np.float32))
        for number in (0, node.attr("mask_filter_value", -10000.0))
    )
    before = (shape[0], 1, 1) if len(shape) == 2 else (shape[0], 1, shape[1])
    whole = ReshapeOp(seen, shape=(*before, shape[-1])).y
    return WhereOp(whole, zero, least).z
