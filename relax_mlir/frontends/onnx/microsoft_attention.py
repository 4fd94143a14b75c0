"""Rules for the attention operators of com.microsoft, with KV caches."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    MaximumOp,
    MinimumOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.bitwise import LogicalAndOp, LogicalOrOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import (
    EqualOp,
    GreaterEqualOp,
    GreaterOp,
    LessEqualOp,
    LessOp,
    WhereOp,
)
from relax_mlir.dialects.relax.concat_split import ConcatOp, StackOp
from relax_mlir.dialects.relax.gather import GatherElementsOp
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.heads import (
    Heads,
    ScoreOptions,
    additive_mask,
    dim_scalar,
    merge_heads,
    positions,
    scaled_dot_product_attention,
    split_heads,
)
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.node_form import (
    check_inputs_and_attributes,
    known_size,
    require_input_shape,
)
from relax_mlir.frontends.onnx.rotary import apply_rotary
from relax_mlir.frontends.onnx.scores import scalar_like
from relax_mlir.frontends.onnx.slicing import slice_axis

__all__ = ["self_attention"]

_INT64 = dtypes.dtype("int64")
_FILTER = -10000.0  # default additive mask of hidden keys


def _scale(node: OnnxNode, size: Dim) -> float:
    """The scale of scores; by default 1 / sqrt(head size).

    Raises:
        NotKnownError: the head size is symbolic.
    """
    given = node.attrs.get("scale", 0.0)
    if not isinstance(size, int):
        raise ValueNotKnownError(
            0, f"expected a known head size, got {size}", needs_shape_only=True
        )
    return given or 1 / math.sqrt(size)


def _merged_attention(
    node: OnnxNode,
    heads: Heads,
    added: Sequence[ir.Value],
    before: Dim | None = None,
    cap: float = 0.0,
) -> ir.Value:
    """Scaled dot-product attention with merged heads; see :class:`ScoreOptions`."""
    scale = _scale(node, tensors.shape_of(heads.query)[3])
    return merge_heads(
        scaled_dot_product_attention(
            node, heads, ScoreOptions(scale, cap, added, before)
        )
    )


def _hiding_value(like: ir.Value) -> float:
    """An additive mask value below all scores; twice it is still finite in f16."""
    return -1e30 if tensors.dtype_of(like).bits > 16 else -3e4


def _causal(
    node: OnnxNode, heads: Heads, new: Dim
) -> tuple[list[ir.Value], Dim | None]:
    """Causal mask; the last query attends to all keys.

    Args:
        node: creates constants.
        heads: queries, keys and values.
        new: the number of keys outside of the KV cache; the first query's position
            follows the cache.

    Returns:
        Additive masks, and the number of keys before the first query's own; see
        :class:`ScoreOptions`.
    """
    length, total = tensors.shape_of(heads.query)[2], tensors.shape_of(heads.key)[2]
    if new == length:  # the last query is aligned with the last key
        return [], total - new
    own = positions(length, (length, 1))
    ends = AddOp(own, dim_scalar(node, total - new)).z
    is_visible = LessEqualOp(positions(total, (1, total)), ends).z
    is_last = EqualOp(own, dim_scalar(node, length - 1)).z
    is_visible = LogicalOrOp(is_visible, is_last).z
    return [
        additive_mask(node, is_visible, heads.query, _hiding_value(heads.query))
    ], None


def _optionally_causal(
    node: OnnxNode, heads: Heads, new: Dim, hidden: Sequence[ir.Value]
) -> ir.Value:
    """Attention, causal if ``unidirectional`` is set.

    Args:
        node: has the attribute ``unidirectional``.
        heads: queries, keys and values.
        new: the number of keys outside of the KV cache.
        hidden: additive masks and biases.
    """
    causal: list[ir.Value] = []
    before: Dim | None = None
    if node.flag("unidirectional", default=False):
        causal, before = _causal(node, heads, new)
    return _merged_attention(node, heads, [*hidden, *causal], before)


def _mask(node: OnnxNode, index: int, total: Dim, like: ir.Value) -> list[ir.Value]:
    """Additive mask from an optional mask input.

    The input holds lengths [batch], ends and starts [2 * batch], or 0 for hidden keys
    in [batch, keys] or [batch, queries, keys].

    Raises:
        ValueError: its rank is wrong.
    """
    mask = node.optional(index)
    if mask is None:
        return []
    shape, batch = tensors.shape_of(mask), tensors.shape_of(like)[0]
    hidden = node.attrs.get("mask_filter_value", _FILTER)
    if len(shape) == 1:
        is_visible = _is_within(mask, index, batch, total)
    elif len(shape) in (2, 3):
        between = shape[1:-1] or (1,)
        wide = ReshapeOp(mask, shape=(shape[0], 1, *between, shape[-1])).y
        is_visible = GreaterOp(wide, scalar_like(node, 0, wide)).z
    else:
        raise ValueError(f"input {index}: expected rank 1, 2 or 3, got {len(shape)}")
    return [additive_mask(node, is_visible, like, hidden)]


def _is_within(mask: ir.Value, index: int, batch: Dim, total: Dim) -> ir.Value:
    """Whether a key's position is before the end, and not before the start if given.

    Raises:
        ValueError: the mask has neither one nor two numbers per batch element.
        NotKnownError: the size of the mask is symbolic.
    """
    size = tensors.shape_of(mask)[0]
    mask, keys = AstypeOp(mask, dtype=_INT64).y, positions(total, (1, 1, 1, total))
    ends = ReshapeOp(slice_axis(mask, 0, 0, batch), shape=(batch, 1, 1, 1)).y
    is_before = LessOp(keys, ends).z
    if size == batch:
        return is_before
    if size != 2 * batch:
        expected = f"expected {batch} numbers or twice that, got {size}"
        for operand, dim in ((index, size), (0, batch)):
            if not isinstance(dim, int):
                raise ValueNotKnownError(operand, expected, needs_shape_only=True)
        raise ValueError(f"input {index}, a mask of rank 1: {expected}")
    starts = ReshapeOp(slice_axis(mask, 0, batch, 2 * batch), shape=(batch, 1, 1, 1)).y
    return LogicalAndOp(is_before, GreaterEqualOp(keys, starts).z).z


def _bias(node: OnnxNode, index: int) -> list[ir.Value]:
    """An optional additive bias of the scores."""
    bias = node.optional(index)
    return [] if bias is None else [bias]


@onnx_rule("com.microsoft::Attention", since=1)
def attention(node: OnnxNode) -> list[ir.Value | None]:
    """Self-attention with a KV cache; projects the input to queries, keys and values.

    Source: onnxruntime, com.microsoft Attention-1.
    """
    names = ("num_heads", "unidirectional", "qkv_hidden_sizes", "mask_filter_value")
    check_inputs_and_attributes(
        node,
        7,
        *names,
        "scale",
        "do_rotary",
        "past_present_share_buffer",
        "rotary_embedding_dim",
    )
    packed = MatmulOp(node.input(0), node.input(1)).z
    if node.optional(2) is not None:
        require_input_shape(node, 2, tensors.shape_of(packed)[-1:])
        packed = AddOp(packed, node.input(2)).z
    return self_attention(node, packed, past=4, mask=3, bias=5)


def self_attention(
    node: OnnxNode, packed: ir.Value, *, past: int, mask: int, bias: int | None
) -> list[ir.Value | None]:
    """Self-attention from packed queries, keys and values.

    Args:
        node: has the attributes of com.microsoft Attention.
        packed: queries, keys and values, [batch, sequence, features].
        past, mask, bias: indices of these inputs; None if the operator has no such input.

    Raises:
        NotImplementedError: an attribute is not supported.
        ValueError: the features do not match the heads.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.flag(name, default=False):
            raise NotImplementedError(
                f"attribute `{name}` is not supported: expected 0, got 1"
            )
    count = node.attr("num_heads")
    parts = _unpacked_features(node, packed)
    query, key, value = (split_heads(x, count, 1) for x in parts)
    cache, present = node.optional(past), None
    if cache is not None:
        olds = [_nth(cache, index) for index in range(2)]
        key, value = (
            ConcatOp([old, new], axis=2).y
            for old, new in zip(olds, (key, value), strict=True)
        )
    if any(node.wanted[1:]):
        present = StackOp([key, value], axis=0).y
    heads, length = Heads(query, key, value), tensors.shape_of(query)[2]
    hidden = _mask(node, mask, tensors.shape_of(key)[2], query)
    hidden += [] if bias is None else _bias(node, bias)
    return [_optionally_causal(node, heads, length, hidden), present]


def _unpacked_features(node: OnnxNode, x: ir.Value) -> list[ir.Value]:
    """Queries, keys and values, split along the last axis.

    Raises:
        ValueError: the sizes do not add up to that of the axis.
    """
    width, last = tensors.shape_of(x)[-1], len(tensors.shape_of(x)) - 1
    if not isinstance(width, int):
        raise ValueNotKnownError(
            1,
            f"expected a known number of features, got {width}",
            needs_shape_only=True,
        )
    sizes = node.attrs.get("qkv_hidden_sizes") or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width or min(sizes) < 1:
        raise ValueError(
            f"qkv_hidden_sizes: expected 3 sizes that add up to {width}, got {sizes}"
        )
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice_axis(x, last, begin, end) for begin, end in pairwise(ends)]


def _nth(x: ir.Value, index: int) -> ir.Value:
    """One slice along the first axis, which is removed."""
    rest = tensors.shape_of(x)[1:]
    return ReshapeOp(slice_axis(x, 0, index, index + 1), shape=rest).y


@onnx_rule("com.microsoft::MultiHeadAttention", since=1)
def multi_head_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Self- or cross-attention with a KV cache; operands are projected already.

    Source: onnxruntime, com.microsoft MultiHeadAttention-1.
    """
    check_inputs_and_attributes(
        node, 10, "num_heads", "mask_filter_value", "scale", "unidirectional"
    )
    if node.optional(9) is not None:
        raise NotImplementedError("input 9, `cache_indirection`, is not supported")
    if any(node.wanted[3:]):
        raise NotImplementedError("output 3, `qk`, is not supported")
    given = _given_heads(node, node.attr("num_heads"))
    key, value = (
        new
        if node.optional(index) is None
        else ConcatOp([node.input(index), new], axis=2).y
        for index, new in ((6, given.key), (7, given.value))
    )
    heads, total = Heads(given.query, key, value), tensors.shape_of(key)[2]
    hidden = [*_mask(node, 4, total, heads.query), *_bias(node, 5)]
    new = tensors.shape_of(given.key)[2]
    return [_optionally_causal(node, heads, new, hidden), key, value]


def _given_heads(node: OnnxNode, count: int) -> Heads:
    """Queries, keys and values of all input formats, split into heads, plus a bias.

    The formats are separate, packed (QKV or KV in one tensor), or split into heads; keys
    that are split into heads include their bias.
    """
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if len(tensors.shape_of(query)) == 5:
        parts = _unpacked(query, 3)
    elif key is None:
        raise ValueError("input 1 is missing, and input 0 holds no keys")
    elif value is None:
        parts = [split_heads(query, count, 0), *_unpacked(key, 2)]
    else:
        parts = [
            x if len(tensors.shape_of(x)) == 4 else split_heads(x, count, index)
            for index, x in enumerate((query, key, value))
        ]
    bias = node.optional(3)
    if bias is not None:
        is_projected = key is not None and len(tensors.shape_of(key)) == 4
        own = 1 if is_projected else 3
        parts = [*_biased(parts[:own], bias), *parts[own:]]
    return Heads(*parts)


def _unpacked(x: ir.Value, count: int) -> list[ir.Value]:
    """The tensors packed as [batch, sequence, heads, tensor, size]."""
    shape = tensors.shape_of(x)
    if len(shape) != 5 or shape[3] != count:
        raise ValueError(
            f"expected [batch, sequence, heads, {count}, size], got "
            f"{shapes.format_shape(shape)}"
        )
    batch, length, heads, _, size = shape
    parts = (slice_axis(x, 3, n, n + 1) for n in range(count))
    flat = (ReshapeOp(own, shape=(batch, length, heads, size)).y for own in parts)
    return [PermuteDimsOp(own, axes=(0, 2, 1, 3)).y for own in flat]


def _biased(parts: Sequence[ir.Value], bias: ir.Value) -> list[ir.Value]:
    """Tensors split into heads plus their slices of a packed bias."""
    biased, begin = [], 0
    for x in parts:
        _, heads, _, size = tensors.shape_of(x)
        own = slice_axis(bias, 0, begin, begin + heads * size)
        biased.append(AddOp(x, ReshapeOp(own, shape=(1, heads, 1, size)).y).z)
        begin = begin + heads * size
    return biased


@onnx_rule("com.microsoft::GroupQueryAttention", since=1)
def group_query_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Causal grouped-query attention with a KV cache.

    The sequences of a batch may differ in length; the new keys are the last ones of each.

    Source: onnxruntime, com.microsoft GroupQueryAttention-1.
    """
    check_inputs_and_attributes(
        node,
        12,
        *("num_heads", "kv_num_heads", "scale", "local_window_size", "softcap"),
        *("do_rotary", "rotary_interleaved", "smooth_softmax", "qk_output"),
        *("k_quant_type", "v_quant_type", "kv_cache_bit_width"),
    )
    if (
        node.optional(11) is not None
        or node.attrs.get("smooth_softmax", 0) > 0
        or any(node.wanted[3:])
    ):
        raise NotImplementedError(
            "attention sinks, smooth softmax and score outputs are not supported"
        )
    heads = _grouped_heads(node)
    batch, _, length, _ = tensors.shape_of(heads.query)
    total = _cache_capacity(node, length)
    lengths = checked_indices(node, node.input(5), "seqlens_k", total)
    ends = ReshapeOp(AstypeOp(lengths, dtype=_INT64).y, shape=(batch,)).y
    before = SubtractOp(ends, dim_scalar(node, length - 1)).z
    # Negative where the first call pads a shorter sequence.
    before = MaximumOp(before, node.constant(np.array(0, np.int64))).z
    if (node.optional(7) is None) != (node.optional(8) is None):
        raise ValueError(
            "inputs 7 and 8, `cos_cache` and `sin_cache`: expected both or neither"
        )
    if node.flag("do_rotary", default=False):
        heads = _rotated_heads(node, heads, before)
    key = _updated_cache(node, 3, heads.key, before, total)
    value = _updated_cache(node, 4, heads.value, before, total)
    key_count = tensors.shape_of(key)[2]
    hidden = [_window_mask(node, heads.query, (before, ends), key_count)]
    extra = [slice_axis(x, 3, 0, tensors.shape_of(key)[2]) for x in _bias(node, 10)]
    cap = node.attrs.get("softcap", 0.0)
    y = _merged_attention(
        node, Heads(heads.query, key, value), [*extra, *hidden], cap=cap
    )
    return [y, key, value]


def _cache_capacity(node: OnnxNode, length: Dim) -> Dim:
    """The capacity of the KV cache in keys."""
    past = node.optional(3)
    if past is None:
        return length
    total = shapes.maximum(tensors.shape_of(past)[2], node.dim(6))
    shapes.require_at_least(total, length)
    return total


def _grouped_heads(node: OnnxNode) -> Heads:
    """Separate or packed queries, keys and values, split into heads."""
    count, shared = node.attr("num_heads"), node.attr("kv_num_heads")
    if shared < 1 or count % shared:
        raise ValueError(
            f"num_heads: expected a multiple of kv_num_heads {shared}, got {count}"
        )
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if key is None or value is None:
        width = known_size(node, 0, -1)
        if width % (count + 2 * shared):
            raise ValueError(
                f"input 0: expected a multiple of {count + 2 * shared} features, got {width}"
            )
        size = width // (count + 2 * shared)
        ends = [0, count * size, (count + shared) * size, width]
        query, key, value = (slice_axis(query, 2, a, b) for a, b in pairwise(ends))
    return Heads(
        split_heads(query, count, 0),
        split_heads(key, shared, 1),
        split_heads(value, shared, 2),
    )


def _rotated_heads(node: OnnxNode, heads: Heads, before: ir.Value) -> Heads:
    """Queries and keys with rotary position embedding."""
    batch, _, length, _ = tensors.shape_of(heads.query)
    own = node.optional(9)
    if own is None:
        start = ReshapeOp(before, shape=(batch, 1)).y
        own = AddOp(start, positions(length, (1, length))).z
    else:
        own = checked_indices(
            node, own, "position_ids", tensors.shape_of(node.input(7))[0]
        )
    is_interleaved = node.flag("rotary_interleaved", default=False)
    known_size(node, 7, -1)
    query, key = (
        apply_rotary(x, own, node.input(7), node.input(8), is_interleaved)
        for x in (heads.query, heads.key)
    )
    return Heads(query, key, heads.value)


def _updated_cache(
    node: OnnxNode, index: int, new: ir.Value, before: ir.Value, total: Dim
) -> ir.Value:
    """KV cache after an append: old rows, then new rows, then 0, per sequence."""
    batch, heads, length, size = tensors.shape_of(new)
    past = node.optional(index)
    if past is None:
        return new
    held = tensors.shape_of(past)[2]
    both = ConcatOp([past, new], axis=2).y
    slots = positions(total, (1, total))
    start = ReshapeOp(before, shape=(batch, 1)).y
    new_rows = AddOp(SubtractOp(slots, start).z, dim_scalar(node, held)).z
    is_old = LessOp(slots, start).z
    end = AddOp(start, dim_scalar(node, length)).z
    is_filled = LessOp(slots, end).z
    column = (batch, 1, total, 1)
    # Rows of empty slots are masked below; the clamp keeps their indices in range.
    clamped = MinimumOp(new_rows, dim_scalar(node, held + length - 1)).z
    source = ReshapeOp(WhereOp(is_old, slots, clamped).z, shape=column).y
    wide = BroadcastToOp(source, shape=(batch, heads, total, size)).y
    is_filled = ReshapeOp(is_filled, shape=column).y
    gathered = GatherElementsOp(both, wide, axis=2).y
    return WhereOp(is_filled, gathered, scalar_like(node, 0, gathered)).z


def _window_mask(
    node: OnnxNode, query: ir.Value, bounds: tuple[ir.Value, ir.Value], total: Dim
) -> ir.Value:
    """Causal mask of sequences with own lengths, and of a sliding window.

    Args:
        node: has the attribute ``local_window_size``.
        query: the queries.
        bounds: positions of the first query and of the last key, per sequence.
        total: the number of keys.
    """
    batch, _, length, _ = tensors.shape_of(query)
    start, last = (ReshapeOp(bound, shape=(batch, 1, 1, 1)).y for bound in bounds)
    own = AddOp(start, positions(length, (1, 1, length, 1))).z
    keys = positions(total, (1, 1, 1, total))
    is_visible = LessEqualOp(keys, MinimumOp(own, last).z).z
    window = node.attrs.get("local_window_size", -1)
    if window > 0:
        first = SubtractOp(own, node.constant(np.array(window, np.int64))).z
        is_visible = LogicalAndOp(is_visible, GreaterOp(keys, first).z).z
    return additive_mask(node, is_visible, query, _hiding_value(query))
