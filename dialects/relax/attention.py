"""Scaled dot-product attention and causal masks."""

import math
from typing import Any

import numpy as np
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require_element_type,
    wide_type,
)
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.relax.scalar_attributes import ScalarAttributesOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_MASKS = (None, "TopLeft", "BottomRight")
_CASES: tuple[dict[str, Any], ...] = (  # Any: see Case
    {},
    {"scale": 0.3},
    {"causal_mask": "TopLeft"},
    {"causal_mask": "BottomRight", "scale": 2.0},
)


class CausalMaskOp(ScalarAttributesOp, name="causal_mask"):
    """Causal mask of attention scores: y[..., i, j] is -inf for j > i + k, else x.

    Attributes:
        k: offset of the diagonal, such as the length of the KV cache; may be symbolic.
    Shapes:
        x, y: [..., queries, keys]; a float type.
    Source: ONNX Attention-23, ``is_causal``.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    k: Attr

    argument_attributes = ("k",)
    number_attributes = ("k",)
    cases = (
        Case((4, 5)),
        Case((2, 3, 3), k=1),
        Case((2, 5, 3), k=-2),
        Case((2, 3, 1, 7), k=6),
        Case((0, 4)),
        Case((3, 3, "float16"), k=-1),
    )

    @staticmethod
    def infer(x: RankedTensorType, k: Dim = 0) -> RankedTensorType:
        require_element_type("f", x)
        if x.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {x.rank}")
        return x

    @staticmethod
    def reference(x: np.ndarray, k: int = 0) -> np.ndarray:
        queries, keys = x.shape[-2:]
        mask = np.arange(keys) <= np.arange(queries)[:, None] + k
        return np.where(mask, x, x.dtype.type(-np.inf))

    def legalize(self, b: Builder) -> Buffer:
        x, offset = b.buffer(self.x), self.python_attrs()["k"]

        def body(*axes: Index) -> Scalar:
            mask = axes[-1] <= axes[-2] + b.dim(b.local_dim(offset))
            return b.select(mask, x[axes], b.constant(-np.inf, x.dtype))

        return b.compute(x.shape, body, x.dtype, self.program_name())


class AttentionBaseOp(Relax.Operation):
    """Base of attention with and without bias."""

    query: Operand[RankedTensorType]
    key: Operand[RankedTensorType]
    value: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    scale: FloatAttr | None
    causal_mask: StringAttr | None
    window_size: IntegerAttr | None

    tolerance = 1e-4  # f32 sums in another order

    def legalize(self, b: Builder) -> Buffer:
        """Scores, unnormalised softmax, and weighted sums of values, then normalised."""
        scores = self._scores(b)
        top = b.reduce("max", scores, [3], name="max")
        e = b.map(lambda v, t: b.exp_not_positive(v - t), scores, top, name="exp")
        total = b.reduce("add", e, [3], name="sum")
        factor = b.map(lambda s: 1.0 / s, total, name="reciprocal")
        value, (shape, out) = b.inputs[2], b.results[0]

        def weighted(n: Index, i: Index, h: Index, d: Index, j: Index) -> Scalar:
            return e[n, h, i, j] * b.widen(value[n, j, h, d])

        mixed = b.reduce_over("add", shape, [e.shape[3]], weighted, e.dtype, "mix")
        return b.compute(
            shape,
            lambda n, i, h, d: b.cast(mixed[n, i, h, d] * factor[n, h, i, 0], out),
            out,
            "attention",
        )

    def _scores(self, b: Builder) -> Buffer:
        """The scaled, biased and masked scores, [n, h, s, t]; -inf where masked."""
        query, key, _, *bias = b.inputs
        attrs, wide = self.python_attrs(), wide_type(query.dtype)
        _check_no_window(attrs["window_size"])
        batch, queries, heads, size = query.shape
        shape = (batch, heads, queries, key.shape[1])

        def product(n: Index, h: Index, i: Index, j: Index, d: Index) -> Scalar:
            return b.widen(query[n, i, h, d]) * b.widen(key[n, j, h, d])

        products = b.reduce_over("add", shape, [size], product, wide, "products")
        diagonal = _diagonal(b, attrs["causal_mask"], queries, key.shape[1])

        def score(n: Index, h: Index, i: Index, j: Index) -> Scalar:
            s = products[n, h, i, j] * _scale(b, attrs["scale"], size, wide)
            for extra in bias:
                sizes = zip(extra.shape, (n, h, i, j), strict=True)
                s = s + b.widen(extra[tuple(0 if d == 1 else p for d, p in sizes)])
            if diagonal is None:
                return s
            return b.select(j <= i + diagonal, s, b.constant(-np.inf, wide))

        return b.compute(shape, score, wide, "scores")


class AttentionOp(AttentionBaseOp, name="nn_attention"):
    """Scaled dot-product attention: softmax(query key^T * scale) value, for every head.

    Computed in f32 for f16 and bf16.

    Attributes:
        scale: None for 1 / sqrt(d).
        causal_mask: ``TopLeft``: query i attends to keys j <= i; ``BottomRight``: to
            j <= i + |t - s|; None: to all keys.
        window_size: size of a sliding window; only None, for no window, is supported.
    Shapes:
        query: [n, s, h, d]; key: [n, t, h, d]; value: [n, t, h, e]; y: [n, s, h, e]; same
        float type.
    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    cases = (
        *(Case((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 6), **attrs) for attrs in _CASES),
        Case((1, 7, 1, 16), (1, 3, 1, 16), (1, 3, 1, 16), causal_mask="BottomRight"),
        Case(*[(1, 5, 2, 8, "float16")] * 3),
    )

    @staticmethod
    def infer(
        query: RankedTensorType,
        key: RankedTensorType,
        value: RankedTensorType,
        scale: float | None = None,
        causal_mask: str | None = None,
        window_size: int | None = None,
    ) -> RankedTensorType:
        return _infer(query, key, value, causal_mask)

    @staticmethod
    @computed_wide
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        scale: float | None,
        causal_mask: str | None,
        window_size: int | None,
    ) -> np.ndarray:
        _check_no_window(window_size)
        return _attended(query, key, value, 0.0, scale, causal_mask)


class AttentionBiasOp(AttentionBaseOp, name="nn_attention_bias"):
    """Attention with bias: softmax(query key^T * scale + bias) value, for every head.

    Computed in f32 for f16 and bf16.

    Attributes:
        scale, causal_mask, window_size: as for ``nn.attention``.
    Shapes:
        query: [n, s, h, d]; key: [n, t, h, d]; value: [n, t, h, e]; y: [n, s, h, e]; bias:
        of rank 4, broadcast to [n, h, s, t]; same float type.
    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    bias: Operand[RankedTensorType]

    cases = (
        *(
            Case((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 6), (2, 4, 3, 5), **attrs)
            for attrs in _CASES
        ),
        Case((2, 3, 4, 8), (2, 5, 4, 8), (2, 5, 4, 6), (1, 4, 1, 5)),
        Case(*[(1, 5, 2, 8, "float16")] * 3, (1, 1, 5, 5, "float16")),
    )

    @staticmethod
    def infer(
        query: RankedTensorType,
        key: RankedTensorType,
        value: RankedTensorType,
        bias: RankedTensorType,
        scale: float | None = None,
        causal_mask: str | None = None,
        window_size: int | None = None,
    ) -> RankedTensorType:
        require_element_type("f", query, bias)
        result = _infer(query, key, value, causal_mask)
        n, s, h, _ = tensors.shape_of(result)
        if bias.rank != 4:
            raise ValueError(f"bias: expected rank 4, got {bias.rank}")
        scores = (n, h, s, tensors.shape_of(key)[1])
        shapes.broadcast_into(scores, tensors.shape_of(bias))
        return result

    @staticmethod
    @computed_wide
    def reference(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        bias: np.ndarray,
        scale: float | None,
        causal_mask: str | None,
        window_size: int | None,
    ) -> np.ndarray:
        _check_no_window(window_size)
        return _attended(query, key, value, bias, scale, causal_mask)


def _infer(
    query: RankedTensorType,
    key: RankedTensorType,
    value: RankedTensorType,
    causal_mask: str | None,
) -> RankedTensorType:
    """The type of the result, [n, s, h, e].

    Raises:
        ValueError: the shapes do not match, or the mask is unknown.
    """
    if causal_mask not in _MASKS:
        raise ValueError(
            f"bad causal_mask: expected TopLeft or BottomRight, got {causal_mask!r}"
        )
    for name, operand in (("query", query), ("key", key), ("value", value)):
        if operand.rank != 4:
            raise ValueError(f"{name}: expected rank 4, got {operand.rank}")
    n, s, h, d = tensors.shape_of(query)
    n_key, t, h_key, d_key = tensors.shape_of(key)
    n_value, t_value, h_value, e = tensors.shape_of(value)
    shapes.unify(d, d_key)
    shapes.unify(t, t_value)
    batch = shapes.unify(shapes.unify(n, n_key), n_value)
    heads = shapes.unify(shapes.unify(h, h_key), h_value)
    return tensors.tensor_type(
        (batch, s, heads, e), require_element_type("f", query, key, value)
    )


def _check_no_window(window_size: int | None) -> None:
    """Rejects sliding windows, which are not implemented.

    Raises:
        ValueError: a window is given.
    """
    if window_size is not None:
        raise ValueError(
            f"windows are not supported: expected window_size None, got {window_size}"
        )


def _attended(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    bias: np.ndarray | float,
    scale: float | None,
    causal_mask: str | None,
) -> np.ndarray:
    factor = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    scores = np.einsum("nihd,njhd->nhij", query, key) * factor + bias
    queries, keys = scores.shape[2:]
    if causal_mask is not None:
        diagonal = 0 if causal_mask == "TopLeft" else abs(keys - queries)
        mask = np.arange(keys) <= np.arange(queries)[:, None] + diagonal
        scores = np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max(3, keepdims=True))
    return np.einsum("nhij,njhd->nihd", e / e.sum(3, keepdims=True), value)


def _scale(b: Builder, scale: float | None, size: Dim, wide: DType) -> Scalar:
    """The scale of the scores, by default 1 / sqrt(head size)."""
    if scale is not None:
        return b.constant(scale, wide)
    return 1.0 / b.math("sqrt", element_count(b, [size], wide))


def _diagonal(
    b: Builder, causal_mask: str | None, queries: Dim, keys: Dim
) -> "Index | int | None":
    """The offset k of the causal mask j <= i + k; None for no mask."""
    if causal_mask is None:
        return None
    if causal_mask == "TopLeft":
        return 0
    if isinstance(queries, int) and isinstance(keys, int):
        return abs(keys - queries)
    return b.dim(shapes.maximum(keys - queries, queries - keys))
