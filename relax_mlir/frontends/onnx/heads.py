"""Multi-head attention builder, shared by the attention rules of all domains.

The layout is [batch, heads, sequence, head size]. Masks are additive: -inf or a large
negative number on a hidden key's score, so that masks and biases add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError
from relax_mlir.dialects.relax.arithmetic import AddOp, DivideOp, MultiplyOp
from relax_mlir.dialects.relax.attention import CausalMaskOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import WhereOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.softmax import SoftmaxOp
from relax_mlir.dialects.relax.trigonometry import TanhOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.scores import scalar_like

__all__ = [
    "Heads",
    "ScoreOptions",
    "additive_mask",
    "dim_scalar",
    "merge_heads",
    "positions",
    "scaled_dot_product_attention",
    "split_heads",
    "unsqueeze_to_rank_4",
]


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each [batch, heads, sequence, head size].

    In grouped-query attention consecutive query heads share a head of keys and values.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value


@dataclass(frozen=True)
class ScoreOptions:
    """Options of attention scores, in the order of application.

    Attributes:
        scale: the factor of query-key dot products.
        cap: soft cap of logits, cap * tanh(s / cap); 0 for none.
        added: additive masks and biases, each broadcast to [batch, heads, queries, keys].
        before: for causal attention, the number of keys before the first query's own (the
            length of the KV cache); None for attention without a causal mask.
    """

    scale: float
    cap: float = 0.0
    added: Sequence[ir.Value] = ()
    before: Dim | None = None


def split_heads(x: ir.Value, heads: int, index: int) -> ir.Value:
    """Split features into heads.

    From [batch, sequence, heads * size] to [batch, heads, sequence, size].

    Args:
        x: the tensor.
        heads: the number of heads.
        index: the node's input that the tensor comes from, for errors.

    Raises:
        ValueError: the rank is not 3, or the heads do not divide the features.
        NotKnownError: the number of features is symbolic.
    """
    shape = tensors.shape_of(x)
    if len(shape) != 3:
        raise ValueError(f"input {index}: expected rank 3, got {len(shape)}")
    batch, length, width = shape
    if not isinstance(width, int):
        raise ValueNotKnownError(
            index,
            f"expected a known number of features, got {width}",
            needs_shape_only=True,
        )
    if heads < 1 or width % heads:
        raise ValueError(
            f"input {index}: expected a multiple of {heads} features, got {width}"
        )
    split_features = ReshapeOp(x, shape=(batch, length, heads, width // heads)).y
    return PermuteDimsOp(split_features, axes=(0, 2, 1, 3)).y


def merge_heads(x: ir.Value) -> ir.Value:
    """Merge heads: [batch, heads, sequence, size] to [batch, sequence, heads * size]."""
    batch, heads, length, size = tensors.shape_of(x)
    swapped = PermuteDimsOp(x, axes=(0, 2, 1, 3)).y
    return ReshapeOp(swapped, shape=(batch, length, heads * size)).y


def scaled_dot_product_attention(
    node: OnnxNode, heads: Heads, scoring: ScoreOptions
) -> ir.Value:
    """Scaled dot-product attention, softmax(scores) @ value: [batch, heads, sequence, size].

    For f16 and bf16 the scores are f32, and the attention weights are rounded.

    Args:
        node: creates constants.
        heads: queries, keys and values.
        scoring: scale, soft cap and masks of the scores.
    """
    type_ = tensors.dtype_of(heads.query)
    wide = wide_type(type_)
    batch, count, length, _ = tensors.shape_of(heads.query)
    *_, width = tensors.shape_of(heads.value)
    grouping = _Grouping.of(heads, is_causal=scoring.before is not None)
    key = grouping.of_keys(heads.key)
    *rest, keys, features = range(len(tensors.shape_of(key)))
    transposed = PermuteDimsOp(key, axes=(*rest, features, keys)).y
    logits = MatmulOp(grouping.of_queries(heads.query), transposed, out_dtype=wide).z
    scores = MultiplyOp(logits, scalar_like(node, scoring.scale, logits)).z
    if scoring.cap:
        limit = scalar_like(node, scoring.cap, scores)
        scores = MultiplyOp(TanhOp(DivideOp(scores, limit).z).y, limit).z
    for mask in scoring.added:
        own = mask if tensors.dtype_of(mask) == wide else AstypeOp(mask, dtype=wide).y
        scores = AddOp(scores, grouping.of_queries(unsqueeze_to_rank_4(own))).z
    if scoring.before is not None:
        scores = CausalMaskOp(scores, k=scoring.before).y
    weights = SoftmaxOp(scores, axis=-1).y
    if type_ != wide:
        weights = AstypeOp(weights, dtype=type_).y
    y = MatmulOp(weights, grouping.of_keys(heads.value)).z
    return ReshapeOp(y, shape=(batch, count, length, width)).y


@dataclass(frozen=True)
class _Grouping:
    """Axes of grouped-query attention: query heads as [key heads, group].

    Attributes:
        shared: the number of key heads.
        group: query heads per key head.
        is_decode: whether there is one query per sequence and no causal mask; the queries
            of a group are then the rows of one matmul.
    """

    shared: int
    group: int
    is_decode: bool

    @classmethod
    def of(cls, heads: Heads, *, is_causal: bool) -> "_Grouping":
        """The grouping of heads, with a causal mask or without."""
        _, count, length, _ = tensors.shape_of(heads.query)
        shared = tensors.shape_of(heads.key)[1]
        for index, size in enumerate((count, shared)):
            if not isinstance(size, int):
                raise ValueNotKnownError(
                    index,
                    f"expected a known number of heads, got {size}",
                    needs_shape_only=True,
                )
        assert isinstance(count, int)
        assert isinstance(shared, int)
        if shared < 1 or count % shared:
            raise ValueError(
                f"expected query heads in multiples of {shared}, got {count}"
            )
        return cls(shared, count // shared, length == 1 and not is_causal)

    def of_keys(self, x: ir.Value) -> ir.Value:
        """Keys or values, with a group axis to broadcast along."""
        if self.group == 1 or self.is_decode:
            return x
        batch, heads, *rest = tensors.shape_of(x)
        return ReshapeOp(x, shape=(batch, heads, 1, *rest)).y

    def of_queries(self, x: ir.Value) -> ir.Value:
        """Queries, or masks of scores, with their heads split into groups."""
        batch, heads, length, size = tensors.shape_of(x)
        if self.group == 1 or (self.is_decode and heads == 1):
            return x
        groups = (1, 1) if heads == 1 else (self.shared, self.group)
        rows = () if self.is_decode else (length,)
        return ReshapeOp(x, shape=(batch, *groups, *rows, size)).y


def unsqueeze_to_rank_4(x: ir.Value) -> ir.Value:
    """A tensor with leading unit axes up to rank 4."""
    shape = tensors.shape_of(x)
    missing = 4 - len(shape)
    return ReshapeOp(x, shape=(*(1,) * missing, *shape)).y if missing else x


def positions(length: Dim, shape: Sequence[Dim]) -> ir.Value:
    """Position indices 0, 1, 2, ... of a sequence, reshaped for broadcasting."""
    indices = ArangeOp(start=0, end=length, dtype=dtypes.dtype("int64")).y
    return ReshapeOp(indices, shape=shape).y


def dim_scalar(node: OnnxNode, dim: Dim) -> ir.Value:
    """A dimension as an int64 scalar tensor."""
    if isinstance(dim, int):
        return node.constant(np.array(dim, np.int64))
    return ReshapeOp(
        ArangeOp(start=dim, end=dim + 1, dtype=dtypes.dtype("int64")).y, shape=()
    ).y


def additive_mask(
    node: OnnxNode, is_visible: ir.Value, like: ir.Value, hidden: float
) -> ir.Value:
    """An additive mask in the element type of ``like``: 0 where visible, else ``hidden``."""
    return WhereOp(
        is_visible, scalar_like(node, 0, like), scalar_like(node, hidden, like)
    ).z
