"""Attention of heads, which the rules of several domains build.

Heads stand as [batch, heads, sequence, size]. What a query does not see is a number that
is added to its scores, so that masks and biases add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.hooks import NotKnownError, OnnxNode
from relax_mlir.dialects.relax.arithmetic import AddOp, DivideOp, MultiplyOp
from relax_mlir.dialects.relax.attention import CausalMaskOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import WhereOp
from relax_mlir.dialects.relax.creation import ArangeOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.movement import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.norm import SoftmaxOp
from relax_mlir.dialects.relax.trigonometry import TanhOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.scores import number

__all__ = [
    "Heads",
    "Scoring",
    "attended",
    "joined",
    "of_rank_4",
    "places",
    "size_of",
    "split",
    "unless",
]


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each [batch, heads, sequence, size].

    A head of keys and values may serve several of queries, which are next to each other.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value


@dataclass(frozen=True)
class Scoring:
    """How products of queries and keys become scores.

    Attributes:
        scale: what they are multiplied by.
        cap: a product p becomes cap * tanh(p / cap) then, unless it is 0.
        added: what is added then; each broadcast to [batch, heads, queries, keys].
        before: how many keys come before that of the first query, of which none sees those
            after its own; None if all are seen.
    """

    scale: float
    cap: float = 0.0
    added: Sequence[ir.Value] = ()
    before: Dim | None = None


def split(x: ir.Value, heads: int, index: int) -> ir.Value:
    """[batch, sequence, heads * size] by heads.

    Args:
        x: the tensor.
        heads: how many.
        index: of the input that it comes from.

    Raises:
        ValueError: the rank is another, or the heads do not fit.
        NotKnownError: the number of features is open.
    """
    shape = tensors.shape_of(x)
    if len(shape) != 3:
        raise ValueError(f"input {index}: expected rank 3, got {len(shape)}")
    batch, length, width = shape
    if not isinstance(width, int):
        raise NotKnownError(
            index, f"expected a known number of features, got {width}", is_of_sizes=True
        )
    if heads < 1 or width % heads:
        raise ValueError(
            f"input {index}: expected a multiple of {heads} features, got {width}"
        )
    apart = ReshapeOp(x, shape=(batch, length, heads, width // heads)).y
    return PermuteDimsOp(apart, axes=(0, 2, 1, 3)).y


def joined(x: ir.Value) -> ir.Value:
    """Heads next to each other again: [batch, sequence, heads * size]."""
    batch, heads, length, size = tensors.shape_of(x)
    swapped = PermuteDimsOp(x, axes=(0, 2, 1, 3)).y
    return ReshapeOp(swapped, shape=(batch, length, heads * size)).y


def attended(node: OnnxNode, heads: Heads, scoring: Scoring) -> ir.Value:
    """softmax(scores) value: [batch, heads, sequence, size].

    Scores of f16 and bf16 are kept in f32, and weights are rounded.

    Args:
        node: that makes constants.
        heads: what attends to what.
        scoring: how.
    """
    type_ = tensors.dtype_of(heads.query)
    wide = wide_type(type_)
    batch, count, length, _ = tensors.shape_of(heads.query)
    *_, width = tensors.shape_of(heads.value)
    apart = _Apart.of(heads, is_masked=scoring.before is not None)
    key = apart.of_keys(heads.key)
    *rest, keys, features = range(len(tensors.shape_of(key)))
    turned = PermuteDimsOp(key, axes=(*rest, features, keys)).y
    products = MatmulOp(apart.of_queries(heads.query), turned, out_dtype=wide).z
    scores = MultiplyOp(products, number(node, scoring.scale, products)).z
    if scoring.cap:
        limit = number(node, scoring.cap, scores)
        scores = MultiplyOp(TanhOp(DivideOp(scores, limit).z).y, limit).z
    for more in scoring.added:
        own = more if tensors.dtype_of(more) == wide else AstypeOp(more, dtype=wide).y
        scores = AddOp(scores, apart.of_queries(of_rank_4(own))).z
    if scoring.before is not None:
        scores = CausalMaskOp(scores, k=scoring.before).y
    weights = SoftmaxOp(scores, axis=-1).y
    if type_ != wide:
        weights = AstypeOp(weights, dtype=type_).y
    mixed = MatmulOp(weights, apart.of_keys(heads.value)).z
    return ReshapeOp(mixed, shape=(batch, count, length, width)).y


@dataclass(frozen=True)
class _Apart:
    """How heads stand that share keys: those of queries by the head of their keys.

    Attributes:
        shared: heads of keys; group: heads of queries for each.
        is_one: whether there is one query, whose place is of no account; then those of a
            group are rows of a product.
    """

    shared: int
    group: int
    is_one: bool

    @classmethod
    def of(cls, heads: Heads, *, is_masked: bool) -> "_Apart":
        """Of some heads, where keys are hidden by their places or not."""
        _, count, length, _ = tensors.shape_of(heads.query)
        shared = tensors.shape_of(heads.key)[1]
        for index, size in enumerate((count, shared)):
            if not isinstance(size, int):
                raise NotKnownError(
                    index,
                    f"expected a known number of heads, got {size}",
                    is_of_sizes=True,
                )
        assert isinstance(count, int)
        assert isinstance(shared, int)
        if shared < 1 or count % shared:
            raise ValueError(
                f"expected heads of queries in multiples of {shared}, got {count}"
            )
        return cls(shared, count // shared, length == 1 and not is_masked)

    def of_keys(self, x: ir.Value) -> ir.Value:
        """Keys or values beside their queries."""
        if self.group == 1 or self.is_one:
            return x
        batch, heads, *rest = tensors.shape_of(x)
        return ReshapeOp(x, shape=(batch, heads, 1, *rest)).y

    def of_queries(self, x: ir.Value) -> ir.Value:
        """Queries, or what is added to their scores, beside their keys."""
        batch, heads, length, size = tensors.shape_of(x)
        if self.group == 1 or (self.is_one and heads == 1):
            return x
        apart = (1, 1) if heads == 1 else (self.shared, self.group)
        rows = () if self.is_one else (length,)
        return ReshapeOp(x, shape=(batch, *apart, *rows, size)).y


def of_rank_4(x: ir.Value) -> ir.Value:
    """A tensor with axes of one element in front, to rank 4."""
    shape = tensors.shape_of(x)
    missing = 4 - len(shape)
    return ReshapeOp(x, shape=(*(1,) * missing, *shape)).y if missing else x


def places(length: Dim, shape: Sequence[Dim]) -> ir.Value:
    """0, 1, 2 ... in the shape that broadcasts."""
    made = ArangeOp(start=0, end=length, dtype=dtypes.dtype("int64")).y
    return ReshapeOp(made, shape=shape).y


def size_of(node: OnnxNode, dim: Dim) -> ir.Value:
    """A size as an operand."""
    if isinstance(dim, int):
        return node.constant(np.array(dim, np.int64))
    return ReshapeOp(
        ArangeOp(start=dim, end=dim + 1, dtype=dtypes.dtype("int64")).y, shape=()
    ).y


def unless(
    node: OnnxNode, is_seen: ir.Value, like: ir.Value, hidden: float
) -> ir.Value:
    """0 where something is seen, else a number that hides it; of another value's type."""
    return WhereOp(is_seen, number(node, 0, like), number(node, hidden, like)).z
