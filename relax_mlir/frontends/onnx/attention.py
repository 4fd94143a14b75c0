"""The rule for attention as the standard defines it."""

import math
from functools import reduce

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.hooks import LeftToBodyError, OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp, SubtractOp
from relax_mlir.dialects.relax.attention import CausalMaskOp
from relax_mlir.dialects.relax.bitwise import LogicalAndOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import EqualOp, LessEqualOp, LessOp, WhereOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.joining import ConcatOp
from relax_mlir.dialects.relax.movement import BroadcastToOp, ReshapeOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.reduce import MaxOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.heads import (
    Heads,
    Scoring,
    attended,
    joined,
    of_rank_4,
    places,
    size_of,
    split,
    unless,
)
from relax_mlir.frontends.onnx.indices import checked
from relax_mlir.frontends.onnx.scores import number

__all__ = ["attention"]

_NAMES = (
    *("is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale"),
    *("softcap", "softmax_precision"),
)
_DOUBLE = 11  # of softmax_precision
_PRECISIONS = {1: "f32", 10: "f16", _DOUBLE: "f64", 16: "bf16"}


@onnx_rule("Attention", since=23)
def attention(node: OnnxNode) -> list[ir.Value | None]:
    """Attention of heads, with masks and with what is remembered.

    The scores themselves, windows and softmax in more bits than the operands have are left
    to the body that the standard gives.

    Source: ONNX Attention-23, -24.
    """
    _check_form(node)
    heads = Heads(*(_by_heads(node, index) for index in range(3)))
    before: Dim = 0
    if node.optional(4) is not None:
        before = tensors.shape_of(node.input(4))[2]
        heads = Heads(
            heads.query,
            ConcatOp([node.input(4), heads.key], axis=2).y,
            ConcatOp([node.input(5), heads.value], axis=2).y,
        )
    total = _total(node)
    is_causal = node.flag("is_causal", default=False) and node.optional(6) is None
    sees_all = not is_causal or is_known_le(total - 1, before)
    scoring = Scoring(
        _scale(node, heads),
        max(0.0, node.attrs.get("softcap", 0.0)),
        _added(node, heads),
        None if sees_all else before,
    )
    y = _zero_where_blind(node, attended(node, heads, scoring), scoring, total)
    if len(tensors.shape_of(node.input(0))) == 3:
        y = joined(y)
    return [y, heads.key, heads.value]


def _check_form(node: OnnxNode) -> None:
    """Leave a node to the standard's body that asks for more than this rule gives.

    Raises:
        LeftToBodyError: it does.
        ValueError: an operand has another rank or another size of heads than it may, or one
            of two that go together is missing.
    """
    _check_ranks(node)
    _check_head_size(node)
    node.flag("is_causal", default=False)  # the body takes others for 0
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
    is_other = any(
        (
            any(node.wanted[3:]),
            set(node.attrs) - set(_NAMES),
            len(set(types)) > 1,
            node.attrs.get("softmax_precision") == _DOUBLE and types[0].bits < 64,
            mask is not None and not _is_known_mask(node, mask),
            node.optional(4) is not None and node.optional(6) is not None,
            not all(isinstance(size, int) for size in _sizes_of_heads(node)),
        )
    )
    if is_other:  # a body without a cap has none at all
        raise LeftToBodyError(*["softcap"] * (node.attrs.get("softcap", 0.0) <= 0))


def _check_head_size(node: OnnxNode) -> None:
    """Check that heads of keys are as large as those of queries.

    The standard's body repeats keys of one feature.

    Raises:
        ValueError: they are not.
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
    """Check the lengths of sequences that are padded; the check stands by itself."""
    lengths, key = node.optional(6), tensors.shape_of(node.input(1))
    if lengths is not None:
        total = key[-2]  # of [batch, keys, features] and of [batch, heads, keys, size]
        checked(node, lengths, "nonpad_kv_seqlen", total + 1)


def _check_ranks(node: OnnxNode) -> None:
    """Check that operands are there, and have the ranks that they may have.

    Raises:
        ValueError: one is missing, or has another rank.
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
        raise ValueError("inputs 4 and 5, past keys and values, go together")


def _sizes_of_heads(node: OnnxNode) -> list[Dim]:
    """The sizes that say how many heads there are, and how large those of queries are."""
    query, key, value = (tensors.shape_of(node.input(index)) for index in range(3))
    if len(query) == 3:
        return [query[-1], key[-1], value[-1]]
    return [query[-1], query[1], key[1], value[1]]


def _is_known_mask(node: OnnxNode, mask: ir.Value) -> bool:
    """Whether a mask is of numbers or of truth, and can be as long as there are keys.

    Raises:
        ValueError: it is longer.
    """
    shape, total = tensors.shape_of(mask), _total(node)
    if is_known_le(total + 1, shape[-1]):
        raise ValueError(f"input 3: expected up to {total} keys, got {shape[-1]}")
    is_long = shape[-1] == total
    is_long |= node.opset >= 24 and is_known_le(shape[-1], total)
    return is_long and tensors.dtype_of(mask).kind in "bf"


def _total(node: OnnxNode) -> Dim:
    """How many keys there are, remembered ones included."""
    past, new = node.optional(4), tensors.shape_of(node.input(1))[-2]
    return new if past is None else tensors.shape_of(past)[2] + new


def _by_heads(node: OnnxNode, index: int) -> ir.Value:
    """An operand as [batch, heads, sequence, size].

    Raises:
        ValueError: it has another rank, or features that do not fit the heads.
    """
    x = node.input(index)
    if len(tensors.shape_of(x)) == 4:
        return x
    name = "kv_num_heads" if index else "q_num_heads"
    return split(x, node.attr(name), index)


def _scale(node: OnnxNode, heads: Heads) -> float:
    """What scores are multiplied by; 1 over the root of a head's size if nothing is said."""
    size = tensors.shape_of(heads.query)[3]
    assert isinstance(size, int)
    return node.attrs["scale"] if "scale" in node.attrs else 1 / math.sqrt(size)


def _added(node: OnnxNode, heads: Heads) -> list[ir.Value]:
    """What masks add to scores, of rank 4: -inf for keys that they hide."""
    mask, wide = node.optional(3), wide_type(tensors.dtype_of(heads.query))
    seen, added = _padded_out(node, heads), []
    if mask is not None:
        mask = of_rank_4(_as_long(node, mask, tensors.shape_of(heads.key)[2]))
        if tensors.dtype_of(mask).kind == "b":
            seen.append(mask)
        else:
            added.append(AstypeOp(mask, dtype=wide).y)
    if seen:
        zero = node.constant(np.zeros((), wide.numpy))
        added.append(unless(node, reduce(_both, seen), zero, -math.inf))
    return added


def _both(a: ir.Value, b: ir.Value) -> ir.Value:
    return LogicalAndOp(a, b).z


def _as_long(node: OnnxNode, mask: ir.Value, total: Dim) -> ir.Value:
    """A mask with a place for every key; those that it lacks are hidden."""
    shape = tensors.shape_of(mask)
    if shape[-1] == total:
        return mask
    width = (0,) * (2 * len(shape) - 1)
    hidden = 0.0 if tensors.dtype_of(mask).kind == "b" else -math.inf
    return PadOp(mask, pad_width=(*width, total - shape[-1]), pad_value=hidden).y


def _padded_out(node: OnnxNode, heads: Heads) -> list[ir.Value]:
    """Which keys are no padding, and, if asked for, do not come after their query.

    The last query of a sequence stands at its last key that is no padding.
    """
    lengths = node.optional(6)
    if lengths is None:
        return []
    batch, _, length, _ = tensors.shape_of(heads.query)
    total = tensors.shape_of(heads.key)[2]
    ends = ReshapeOp(lengths, shape=(batch, 1, 1, 1)).y
    keys = places(total, (1, 1, 1, total))
    seen = [LessOp(keys, ends).z]
    if node.flag("is_causal", default=False):
        behind = SubtractOp(ends, size_of(node, length)).z
        own = AddOp(places(length, (1, 1, length, 1)), behind).z
        seen.append(LessEqualOp(keys, own).z)
    return seen


def _zero_where_blind(
    node: OnnxNode, y: ir.Value, scoring: Scoring, total: Dim
) -> ir.Value:
    """The result, and 0 for queries that see no key, by what masks say of them.

    Args:
        node: that makes constants.
        y: [batch, heads, sequence, size].
        scoring: how scores were made; total: how many keys there are.
    """
    if not scoring.added:
        return y
    hidden = reduce(lambda a, b: AddOp(a, b).z, scoring.added)
    if scoring.before is not None:
        batch, heads, _, _ = tensors.shape_of(hidden)
        wide = (batch, heads, tensors.shape_of(y)[2], total)
        hidden = CausalMaskOp(BroadcastToOp(hidden, shape=wide).y, k=scoring.before).y
    most = MaxOp(hidden, axis=(-1,), keepdims=True).y
    is_blind = EqualOp(most, number(node, -math.inf, most)).z
    return WhereOp(is_blind, number(node, 0, y), y).z
