"""Rule for ONNX's standard Attention operator."""

import math
from functools import reduce

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, UseFunctionBodyError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, SubtractOp
from relax_mlir.dialects.relax.attention import CausalMaskOp
from relax_mlir.dialects.relax.bitwise import LogicalAndOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import EqualOp, LessEqualOp, LessOp, WhereOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.manipulate import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.reduce import MaxOp
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
    unsqueeze_to_rank_4,
)
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.scores import scalar_like
from relax_mlir.symbolic.bounds import is_known_le

__all__ = ["attention"]

_NAMES = (
    *("is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale"),
    *("softcap", "softmax_precision"),
)
_DOUBLE = 11  # value of softmax_precision
_PRECISIONS = {1: "f32", 10: "f16", _DOUBLE: "f64", 16: "bf16"}


@onnx_rule("Attention", since=23)
def attention(node: OnnxNode) -> list[ir.Value | None]:
    """Multi-head attention with masks and a KV cache.

    Score outputs, sliding windows and a softmax in higher precision than the operands are
    left to the function body that the standard defines.

    Source: ONNX Attention-23, -24.
    """
    _check_form(node)
    heads = Heads(*(_split_operand(node, index) for index in range(3)))
    before: Dim = 0
    if node.optional(4) is not None:
        before = tensors.shape_of(node.input(4))[2]
        heads = Heads(
            heads.query,
            ConcatOp([node.input(4), heads.key], axis=2).y,
            ConcatOp([node.input(5), heads.value], axis=2).y,
        )
    total = _key_count(node)
    is_causal = node.flag("is_causal", default=False) and node.optional(6) is None
    is_unmasked = not is_causal or is_known_le(total - 1, before)
    scoring = ScoreOptions(
        _scale(node, heads),
        max(0.0, node.attrs.get("softcap", 0.0)),
        _additive_masks(node, heads),
        None if is_unmasked else before,
    )
    y = _zero_fully_masked(
        node, scaled_dot_product_attention(node, heads, scoring), scoring, total
    )
    if len(tensors.shape_of(node.input(0))) == 3:
        y = merge_heads(y)
    return [y, heads.key, heads.value]


def _check_form(node: OnnxNode) -> None:
    """Validate a node, and leave one that this rule does not support to the standard's body.

    Raises:
        LeftToBodyError: the node uses a feature that this rule does not support.
        ValueError: an operand has a wrong rank or head size, or only one of the past key
            and the past value is given.
    """
    _check_ranks(node)
    _check_head_size(node)
    node.flag("is_causal", default=False)  # the body treats other values as 0
    if node.attrs.get("scale", 1.0) < 0:
        raise ValueError("attribute `scale`: expected 0 or more, as its root is taken")
    precision = node.attrs.get("softmax_precision", 1)
    if precision not in _PRECISIONS:
        known = ", ".join(f"{n} ({name})" for n, name in _PRECISIONS.items())
        raise ValueError(
            f"attribute `softmax_precision`: expected {known}, got {precision}"
        )
    _check_lengths(node)
    types = [tensors.dtype_of(node.input(index)) for index in range(3)]
    if not types[0].is_float:
        raise ValueError(f"input 0: expected floats, got {types[0]}")
    mask = node.optional(3)
    is_unsupported = any(
        (
            any(node.wanted[3:]),
            set(node.attrs) - set(_NAMES),
            len(set(types)) > 1,
            node.attrs.get("softmax_precision") == _DOUBLE and types[0].bits < 64,
            mask is not None and not _is_known_mask(node, mask),
            node.optional(4) is not None and node.optional(6) is not None,
            not all(isinstance(size, int) for size in _head_dims(node)),
        )
    )
    if is_unsupported:  # without `softcap` the body applies no cap
        raise UseFunctionBodyError(*["softcap"] * (node.attrs.get("softcap", 0.0) <= 0))


def _check_head_size(node: OnnxNode) -> None:
    """Check that heads of keys and queries have the same size.

    The standard's body would broadcast keys with one feature instead.

    Raises:
        ValueError: the sizes differ.
    """
    names = ("q_num_heads", "kv_num_heads")
    features = [tensors.shape_of(node.input(index)) for index in range(2)]
    counts = [1 if len(features[0]) == 4 else node.attr(name) for name in names]
    query, key = (shape[-1] for shape in features)
    are_known = isinstance(query, int) and isinstance(key, int)
    if are_known and query * counts[1] != key * counts[0]:
        raise ValueError(
            f"heads of queries and keys: expected one size, got {query} / {counts[0]} and "
            f"{key} / {counts[1]}"
        )


def _check_lengths(node: OnnxNode) -> None:
    """Emit a range check of ``nonpad_kv_seqlen``; nothing uses its result."""
    lengths, key = node.optional(6), tensors.shape_of(node.input(1))
    if lengths is not None:
        total = key[-2]  # of [batch, keys, features] and of [batch, heads, keys, size]
        checked_indices(node, lengths, "nonpad_kv_seqlen", total + 1)


def _check_ranks(node: OnnxNode) -> None:
    """Check that required operands are present and that all have allowed ranks.

    Raises:
        ValueError: an operand is missing or has a wrong rank.
    """
    rank = len(tensors.shape_of(node.input(0)))
    allowed = {
        0: (3, 4),
        1: (rank,),
        2: (rank,),
        3: (1, 2, 3, 4),
        4: (4,),
        5: (4,),
        6: (1,),
    }
    for index, ranks in allowed.items():
        operand = node.input(index) if index < 3 else node.optional(index)
        shape = None if operand is None else tensors.shape_of(operand)
        if shape is not None and len(shape) not in ranks:
            expected = " or ".join(map(str, ranks))
            raise ValueError(
                f"input {index}: expected rank {expected}, got "
                f"{shapes.format_shape(shape)}"
            )
    if (node.optional(4) is None) != (node.optional(5) is None):
        raise ValueError(
            "inputs 4 and 5, past keys and values: expected both or neither"
        )


def _head_dims(node: OnnxNode) -> list[Dim]:
    """The dimensions from which head counts and the query head size follow."""
    query, key, value = (tensors.shape_of(node.input(index)) for index in range(3))
    if len(query) == 3:
        return [query[-1], key[-1], value[-1]]
    return [query[-1], query[1], key[1], value[1]]


def _is_known_mask(node: OnnxNode, mask: ir.Value) -> bool:
    """Whether a mask is float or boolean, and has at most one element per key.

    Raises:
        ValueError: the mask is longer than the keys.
    """
    shape, total = tensors.shape_of(mask), _key_count(node)
    if is_known_le(total + 1, shape[-1]):
        raise ValueError(f"input 3: expected up to {total} keys, got {shape[-1]}")
    is_long = shape[-1] == total
    is_long |= node.opset >= 24 and is_known_le(shape[-1], total)
    return is_long and tensors.dtype_of(mask).kind in "bf"


def _key_count(node: OnnxNode) -> Dim:
    """The number of keys, including those in the KV cache."""
    past, new = node.optional(4), tensors.shape_of(node.input(1))[-2]
    return new if past is None else tensors.shape_of(past)[2] + new


def _split_operand(node: OnnxNode, index: int) -> ir.Value:
    """An operand as [batch, heads, sequence, size].

    Raises:
        ValueError: the rank is not 3 or 4, or heads do not divide the features.
    """
    x = node.input(index)
    if len(tensors.shape_of(x)) == 4:
        return x
    name = "kv_num_heads" if index else "q_num_heads"
    return split_heads(x, node.attr(name), index)


def _scale(node: OnnxNode, heads: Heads) -> float:
    """The scale of scores; by default 1 / sqrt(head size)."""
    size = tensors.shape_of(heads.query)[3]
    assert isinstance(size, int)
    return node.attrs["scale"] if "scale" in node.attrs else 1 / math.sqrt(size)


def _additive_masks(node: OnnxNode, heads: Heads) -> list[ir.Value]:
    """Additive masks of scores, of rank 4: -inf for hidden keys."""
    mask, wide = node.optional(3), wide_type(tensors.dtype_of(heads.query))
    visible, added = _padding_masks(node, heads), []
    if mask is not None:
        mask = unsqueeze_to_rank_4(
            _padded_mask(node, mask, tensors.shape_of(heads.key)[2])
        )
        if tensors.dtype_of(mask).kind == "b":
            visible.append(mask)
        else:
            added.append(AstypeOp(mask, dtype=wide).y)
    if visible:
        zero = node.constant(np.zeros((), wide.numpy))
        added.append(
            additive_mask(node, reduce(_logical_and, visible), zero, -math.inf)
        )
    return added


def _logical_and(a: ir.Value, b: ir.Value) -> ir.Value:
    return LogicalAndOp(a, b).z


def _padded_mask(node: OnnxNode, mask: ir.Value, total: Dim) -> ir.Value:
    """A mask padded to the number of keys; keys beyond its end are hidden."""
    shape = tensors.shape_of(mask)
    if shape[-1] == total:
        return mask
    width = (0,) * (2 * len(shape) - 1)
    hidden = 0.0 if tensors.dtype_of(mask).kind == "b" else -math.inf
    return PadOp(mask, pad_width=(*width, total - shape[-1]), pad_value=hidden).y


def _padding_masks(node: OnnxNode, heads: Heads) -> list[ir.Value]:
    """Boolean masks of the keys that are not padding, causal if the node is.

    The last query of a sequence is aligned with its last key that is not padding.
    """
    lengths = node.optional(6)
    if lengths is None:
        return []
    batch, _, length, _ = tensors.shape_of(heads.query)
    total = tensors.shape_of(heads.key)[2]
    ends = ReshapeOp(lengths, shape=(batch, 1, 1, 1)).y
    keys = positions(total, (1, 1, 1, total))
    visible = [LessOp(keys, ends).z]
    if node.flag("is_causal", default=False):
        offset = SubtractOp(ends, dim_scalar(node, length)).z
        own = AddOp(positions(length, (1, 1, length, 1)), offset).z
        visible.append(LessEqualOp(keys, own).z)
    return visible


def _zero_fully_masked(
    node: OnnxNode, y: ir.Value, scoring: ScoreOptions, total: Dim
) -> ir.Value:
    """The result, with 0 for queries whose keys are all masked.

    Args:
        node: creates constants.
        y: [batch, heads, sequence, size].
        scoring: options of the scores, with their additive masks.
        total: the number of keys.
    """
    if not scoring.added:
        return y
    hidden = reduce(lambda a, b: AddOp(a, b).z, scoring.added)
    if scoring.before is not None:
        batch, heads, _, _ = tensors.shape_of(hidden)
        wide = (batch, heads, tensors.shape_of(y)[2], total)
        hidden = CausalMaskOp(BroadcastToOp(hidden, shape=wide).y, k=scoring.before).y
    most = MaxOp(hidden, axis=(-1,), keepdims=True).y
    is_fully_masked = EqualOp(most, scalar_like(node, -math.inf, most)).z
    return WhereOp(is_fully_masked, scalar_like(node, 0, y), y).z
