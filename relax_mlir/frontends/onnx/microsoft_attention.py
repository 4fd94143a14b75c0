"""Rules for the attention of com.microsoft, with what it remembers of former calls."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.hooks import NotKnownError, OnnxNode, onnx_rule
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
from relax_mlir.dialects.relax.indexing import GatherElementsOp
from relax_mlir.dialects.relax.joining import ConcatOp, StackOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import (
    BroadcastToOp,
    PermuteDimsOp,
    ReshapeOp,
)
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.heads import (
    Heads,
    Scoring,
    attended,
    joined,
    places,
    size_of,
    split,
    unless,
)
from relax_mlir.frontends.onnx.indices import checked
from relax_mlir.frontends.onnx.node_form import (
    check_form,
    check_input_shape,
    known_size,
)
from relax_mlir.frontends.onnx.rotary import rotated
from relax_mlir.frontends.onnx.scores import number
from relax_mlir.frontends.onnx.slicing import part

__all__ = ["self_attention"]

_INT64 = dtypes.dtype("int64")
_FILTER = -10000.0  # added to the scores of what a mask hides


def _scale(node: OnnxNode, size: Dim) -> float:
    """What scores are multiplied by.

    Raises:
        NotKnownError: the size of heads is open.
    """
    given = node.attrs.get("scale", 0.0)
    if not isinstance(size, int):
        raise NotKnownError(
            0, f"expected a known size of heads, got {size}", is_of_sizes=True
        )
    return given or 1 / math.sqrt(size)


def _mixed(
    node: OnnxNode,
    heads: Heads,
    added: Sequence[ir.Value],
    before: Dim | None = None,
    cap: float = 0.0,
) -> ir.Value:
    """softmax(query key^T * scale + added) value, heads joined; see :class:`Scoring`."""
    scale = _scale(node, tensors.shape_of(heads.query)[3])
    return joined(attended(node, heads, Scoring(scale, cap, added, before)))


def _lowest(like: ir.Value) -> float:
    """A number below all scores that f16 still has room for twice."""
    return -1e30 if tensors.dtype_of(like).bits > 16 else -3e4


def _causal(
    node: OnnxNode, heads: Heads, new: Dim
) -> tuple[list[ir.Value], Dim | None]:
    """What hides the keys behind each query; the last query sees all of them.

    Args:
        node: that makes constants.
        heads: what attends to what.
        new: how many keys there are beside those that are remembered, which the first
            query stands behind.

    Returns:
        What is added to scores, and how many keys come before that of the first query.
    """
    length, total = tensors.shape_of(heads.query)[2], tensors.shape_of(heads.key)[2]
    if new == length:  # the last query stands at the last key
        return [], total - new
    own = places(length, (length, 1))
    ends = AddOp(own, size_of(node, total - new)).z
    is_seen = LessEqualOp(places(total, (1, total)), ends).z
    is_last = EqualOp(own, size_of(node, length - 1)).z
    is_seen = LogicalOrOp(is_seen, is_last).z
    return [unless(node, is_seen, heads.query, _lowest(heads.query))], None


def _seen_before(
    node: OnnxNode, heads: Heads, new: Dim, hidden: Sequence[ir.Value]
) -> ir.Value:
    """What heads attend to, where a query may see only keys in front of it.

    Args:
        node: with the attribute ``unidirectional``; the others are those of
            :func:`_causal` and :func:`_mixed`.
    """
    later: list[ir.Value] = []
    before: Dim | None = None
    if node.flag("unidirectional", default=False):
        later, before = _causal(node, heads, new)
    return _mixed(node, heads, [*hidden, *later], before)


def _mask(node: OnnxNode, index: int, total: Dim, like: ir.Value) -> list[ir.Value]:
    """What an input that masks keys adds to the scores, if it is there.

    It is [batch] of lengths, [2 * batch] of ends and beginnings, or 0 for what is hidden
    in [batch, t] or [batch, s, t].

    Raises:
        ValueError: it has another form.
    """
    mask = node.optional(index)
    if mask is None:
        return []
    shape, batch = tensors.shape_of(mask), tensors.shape_of(like)[0]
    hidden = node.attrs.get("mask_filter_value", _FILTER)
    if len(shape) == 1:
        is_seen = _is_within(mask, index, batch, total)
    elif len(shape) in (2, 3):
        between = shape[1:-1] or (1,)
        wide = ReshapeOp(mask, shape=(shape[0], 1, *between, shape[-1])).y
        is_seen = GreaterOp(wide, number(node, 0, wide)).z
    else:
        raise ValueError(f"input {index}: expected rank 1, 2 or 3, got {len(shape)}")
    return [unless(node, is_seen, like, hidden)]


def _is_within(mask: ir.Value, index: int, batch: Dim, total: Dim) -> ir.Value:
    """Whether a key is in front of the end, and behind the beginning if that is told.

    Raises:
        ValueError: there are neither one nor two numbers for each of the batch.
        NotKnownError: their number is open.
    """
    size = tensors.shape_of(mask)[0]
    mask, keys = AstypeOp(mask, dtype=_INT64).y, places(total, (1, 1, 1, total))
    ends = ReshapeOp(part(mask, 0, 0, batch), shape=(batch, 1, 1, 1)).y
    is_before = LessOp(keys, ends).z
    if size == batch:
        return is_before
    if size != 2 * batch:
        expected = f"expected {batch} numbers or twice that, got {size}"
        for number, dim in ((index, size), (0, batch)):
            if not isinstance(dim, int):
                raise NotKnownError(number, expected, is_of_sizes=True)
        raise ValueError(f"input {index}, a mask of rank 1: {expected}")
    starts = ReshapeOp(part(mask, 0, batch, 2 * batch), shape=(batch, 1, 1, 1)).y
    return LogicalAndOp(is_before, GreaterEqualOp(keys, starts).z).z


def _bias(node: OnnxNode, index: int) -> list[ir.Value]:
    """What an input adds to the scores, if it is there."""
    bias = node.optional(index)
    return [] if bias is None else [bias]


@onnx_rule("com.microsoft::Attention", since=1)
def attention(node: OnnxNode) -> list[ir.Value | None]:
    """Attention of a sequence to itself and to what is remembered.

    Source: onnxruntime, com.microsoft Attention-1.
    """
    names = ("num_heads", "unidirectional", "qkv_hidden_sizes", "mask_filter_value")
    check_form(
        node,
        7,
        *names,
        "scale",
        "do_rotary",
        "past_present_share_buffer",
        "rotary_embedding_dim",
    )
    product = MatmulOp(node.input(0), node.input(1)).z
    if node.optional(2) is not None:
        check_input_shape(node, 2, tensors.shape_of(product)[-1:])
        product = AddOp(product, node.input(2)).z
    return self_attention(node, product, past=4, mask=3, bias=5)


def self_attention(
    node: OnnxNode, product: ir.Value, *, past: int, mask: int, bias: int | None
) -> list[ir.Value | None]:
    """Attention of queries, keys and values that one product holds side by side.

    Args:
        node: with the attributes of com.microsoft Attention.
        product: [batch, sequence, features].
        past, mask, bias: places of these inputs; None where there is no such input.

    Raises:
        NotImplementedError: the node asks for what is not supported.
        ValueError: the features do not fit the heads.
    """
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.flag(name, default=False):
            raise NotImplementedError(
                f"attribute `{name}` is not supported: expected 0, got 1"
            )
    count = node.attr("num_heads")
    parts = _thirds(node, product)
    query, key, value = (split(x, count, 1) for x in parts)
    remembered, present = node.optional(past), None
    if remembered is not None:
        olds = [_nth(remembered, number) for number in range(2)]
        key, value = (
            ConcatOp([old, new], axis=2).y
            for old, new in zip(olds, (key, value), strict=True)
        )
    if any(node.wanted[1:]):
        present = StackOp([key, value], axis=0).y
    heads, length = Heads(query, key, value), tensors.shape_of(query)[2]
    hidden = _mask(node, mask, tensors.shape_of(key)[2], query)
    hidden += [] if bias is None else _bias(node, bias)
    return [_seen_before(node, heads, length, hidden), present]


def _thirds(node: OnnxNode, x: ir.Value) -> list[ir.Value]:
    """Queries, keys and values that stand next to each other along the last axis.

    Raises:
        ValueError: they do not fit.
    """
    width, last = tensors.shape_of(x)[-1], len(tensors.shape_of(x)) - 1
    if not isinstance(width, int):
        raise NotKnownError(
            1, f"expected a known number of features, got {width}", is_of_sizes=True
        )
    sizes = node.attrs.get("qkv_hidden_sizes") or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width or min(sizes) < 1:
        raise ValueError(f"qkv_hidden_sizes: expected 3 that make {width}, got {sizes}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [part(x, last, begin, end) for begin, end in pairwise(ends)]


def _nth(x: ir.Value, place: int) -> ir.Value:
    """One of the slices along the first axis."""
    rest = tensors.shape_of(x)[1:]
    return ReshapeOp(part(x, 0, place, place + 1), shape=rest).y


@onnx_rule("com.microsoft::MultiHeadAttention", since=1)
def multi_head_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Attention of one sequence to another, or to itself, and to what is remembered.

    Source: onnxruntime, com.microsoft MultiHeadAttention-1.
    """
    check_form(node, 10, "num_heads", "mask_filter_value", "scale", "unidirectional")
    if node.optional(9) is not None:
        raise NotImplementedError("input 9, `cache_indirection`, is not supported")
    if any(node.wanted[3:]):
        raise NotImplementedError("output 3, the scores, is not supported")
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
    return [_seen_before(node, heads, new, hidden), key, value]


def _given_heads(node: OnnxNode, count: int) -> Heads:
    """The operands by heads: apart, packed together, or split already; plus a bias.

    Keys that are split already were projected elsewhere, with their bias.
    """
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if len(tensors.shape_of(query)) == 5:
        parts = _unpacked(query, 3)
    elif key is None:
        raise ValueError("input 1 is missing, and input 0 holds no keys")
    elif value is None:
        parts = [split(query, count, 0), *_unpacked(key, 2)]
    else:
        parts = [
            x if len(tensors.shape_of(x)) == 4 else split(x, count, index)
            for index, x in enumerate((query, key, value))
        ]
    bias = node.optional(3)
    if bias is not None:
        is_projected = key is not None and len(tensors.shape_of(key)) == 4
        own = 1 if is_projected else 3
        parts = [*_biased(parts[:own], bias), *parts[own:]]
    return Heads(*parts)


def _unpacked(x: ir.Value, count: int) -> list[ir.Value]:
    """The parts of [batch, sequence, heads, parts, size]."""
    shape = tensors.shape_of(x)
    if len(shape) != 5 or shape[3] != count:
        raise ValueError(
            f"expected [batch, sequence, heads, {count}, size], got "
            f"{shapes.format_shape(shape)}"
        )
    batch, length, heads, _, size = shape
    parts = (part(x, 3, n, n + 1) for n in range(count))
    flat = (ReshapeOp(own, shape=(batch, length, heads, size)).y for own in parts)
    return [PermuteDimsOp(own, axes=(0, 2, 1, 3)).y for own in flat]


def _biased(parts: Sequence[ir.Value], bias: ir.Value) -> list[ir.Value]:
    """Every part plus its share of a bias, whose features are those of all parts."""
    made, begin = [], 0
    for x in parts:
        _, heads, _, size = tensors.shape_of(x)
        own = part(bias, 0, begin, begin + heads * size)
        made.append(AddOp(x, ReshapeOp(own, shape=(1, heads, 1, size)).y).z)
        begin = begin + heads * size
    return made


@onnx_rule("com.microsoft::GroupQueryAttention", since=1)
def group_query_attention(node: OnnxNode) -> list[ir.Value | None]:
    """Causal attention, where a head of keys serves several of queries.

    Every sequence of the batch has a length of its own, which its new keys are the end of.

    Source: onnxruntime, com.microsoft GroupQueryAttention-1.
    """
    check_form(
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
        raise NotImplementedError("sinks, smooth softmax and scores are not supported")
    heads = _grouped_heads(node)
    batch, _, length, _ = tensors.shape_of(heads.query)
    total = _total(node, length)
    lengths = checked(node, node.input(5), "seqlens_k", total)
    ends = ReshapeOp(AstypeOp(lengths, dtype=_INT64).y, shape=(batch,)).y
    before = SubtractOp(ends, size_of(node, length - 1)).z
    # Below 0 where the first call pads a shorter sequence.
    before = MaximumOp(before, node.constant(np.array(0, np.int64))).z
    if (node.optional(7) is None) != (node.optional(8) is None):
        raise ValueError("inputs 7 and 8, cosines and sines, go together")
    if node.flag("do_rotary", default=False):
        heads = _turned(node, heads, before)
    key = _remembered(node, 3, heads.key, before, total)
    value = _remembered(node, 4, heads.value, before, total)
    hidden = [_seen(node, heads.query, (before, ends), tensors.shape_of(key)[2])]
    extra = [part(x, 3, 0, tensors.shape_of(key)[2]) for x in _bias(node, 10)]
    cap = node.attrs.get("softcap", 0.0)
    y = _mixed(node, Heads(heads.query, key, value), [*extra, *hidden], cap=cap)
    return [y, key, value]


def _total(node: OnnxNode, length: Dim) -> Dim:
    """How many keys there is room for."""
    past = node.optional(3)
    if past is None:
        return length
    total = shapes.maximum(tensors.shape_of(past)[2], node.dim(6))
    shapes.require_at_least(total, length)
    return total


def _grouped_heads(node: OnnxNode) -> Heads:
    """The operands by heads, apart or packed next to each other."""
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
        query, key, value = (part(query, 2, a, b) for a, b in pairwise(ends))
    return Heads(
        split(query, count, 0),
        split(key, shared, 1),
        split(value, shared, 2),
    )


def _turned(node: OnnxNode, heads: Heads, before: ir.Value) -> Heads:
    """Queries and keys turned by where they stand."""
    batch, _, length, _ = tensors.shape_of(heads.query)
    own = node.optional(9)
    if own is None:
        start = ReshapeOp(before, shape=(batch, 1)).y
        own = AddOp(start, places(length, (1, length))).z
    else:
        own = checked(node, own, "position_ids", tensors.shape_of(node.input(7))[0])
    is_mixed = node.flag("rotary_interleaved", default=False)
    known_size(node, 7, -1)
    query, key = (
        rotated(x, own, node.input(7), node.input(8), is_mixed)
        for x in (heads.query, heads.key)
    )
    return Heads(query, key, heads.value)


def _remembered(
    node: OnnxNode, index: int, new: ir.Value, before: ir.Value, total: Dim
) -> ir.Value:
    """What an input remembers, then what is new, then 0; for each sequence by itself."""
    batch, heads, length, size = tensors.shape_of(new)
    past = node.optional(index)
    if past is None:
        return new
    held = tensors.shape_of(past)[2]
    both = ConcatOp([past, new], axis=2).y
    every = places(total, (1, total))
    start = ReshapeOp(before, shape=(batch, 1)).y
    moved = AddOp(SubtractOp(every, start).z, size_of(node, held)).z
    is_old = LessOp(every, start).z
    end = AddOp(start, size_of(node, length)).z
    is_new = LessOp(every, end).z
    column = (batch, 1, total, 1)
    # Behind the last key nothing is read: the place is one that is there.
    nearest = MinimumOp(moved, size_of(node, held + length - 1)).z
    source = ReshapeOp(WhereOp(is_old, every, nearest).z, shape=column).y
    wide = BroadcastToOp(source, shape=(batch, heads, total, size)).y
    is_there = ReshapeOp(is_new, shape=column).y  # what is old is in front of the new
    gathered = GatherElementsOp(both, wide, axis=2).y
    return WhereOp(is_there, gathered, number(node, 0, gathered)).z


def _seen(
    node: OnnxNode, query: ir.Value, bounds: tuple[ir.Value, ir.Value], total: Dim
) -> ir.Value:
    """Hides keys behind each query or the last, and those in front of its window.

    Args:
        node: with the attribute ``local_window_size``.
        query: the queries.
        bounds: the places of the first query, and of the last key, of every sequence.
        total: how many keys there are.
    """
    batch, _, length, _ = tensors.shape_of(query)
    start, last = (ReshapeOp(bound, shape=(batch, 1, 1, 1)).y for bound in bounds)
    own = AddOp(start, places(length, (1, 1, length, 1))).z
    keys = places(total, (1, 1, 1, total))
    is_seen = LessEqualOp(keys, MinimumOp(own, last).z).z
    window = node.attrs.get("local_window_size", -1)
    if window > 0:
        first = SubtractOp(own, node.constant(np.array(window, np.int64))).z
        is_seen = LogicalAndOp(is_seen, GreaterOp(keys, first).z).z
    return unless(node, is_seen, query, _lowest(query))
