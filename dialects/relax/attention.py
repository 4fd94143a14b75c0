"""Attention: sums of values by how their keys fit a query."""

import math
from typing import Any

import numpy as np
from mlir.ir import FloatAttr, IntegerAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.ext import Attr, Operand, Result
from relax_mlir.dialects.hooks import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import (
    computed_wide,
    require,
    wide_type,
)
from relax_mlir.dialects.relax.number_attributes import NumbersOp
from relax_mlir.dialects.relax.reduce import element_count
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

_MASKS = (None, "TopLeft", "BottomRight")
_CASES: tuple[dict[str, Any], ...] = (  # Any: see Case
    {},
    {"scale": 0.3},
    {"causal_mask": "TopLeft"},
    {"causal_mask": "BottomRight", "scale": 2.0},
)


class CausalMaskOp(NumbersOp, name="causal_mask"):
    """Scores, and -inf for the keys that come after a query: y[.., i, j] where j > i + k.

    Attributes:
        k: how many keys come before that of the first query; may be symbolic.
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
        require("f", x)
        if x.rank < 2:
            raise ValueError(f"expected rank 2 or more, got {x.rank}")
        return x

    @staticmethod
    def reference(x: np.ndarray, k: int = 0) -> np.ndarray:
        queries, keys = x.shape[-2:]
        is_seen = np.arange(keys) <= np.arange(queries)[:, None] + k
        return np.where(is_seen, x, x.dtype.type(-np.inf))

    def legalize(self, b: Builder) -> Buffer:
        x, reach = b.buffer(self.x), self.python_attrs()["k"]

        def body(*axes: Index) -> Scalar:
            is_seen = axes[-1] <= axes[-2] + b.dim(b.local(reach))
            return b.select(is_seen, x[axes], b.constant(-np.inf, x.dtype))

        return b.compute(x.shape, body, x.dtype, self.program_name())


class AttentionBaseOp(Relax.Operation):
    """Base of attention, with a bias and without."""

    query: Operand[RankedTensorType]
    key: Operand[RankedTensorType]
    value: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    scale: FloatAttr | None
    causal_mask: StringAttr | None
    window_size: IntegerAttr | None

    tolerance = 1e-4  # f32 sums in another order

    def legalize(self, b: Builder) -> Buffer:
        """Scores, their softmax but for its last factor, and sums of values."""
        scores = self._scores(b)
        top = b.reduce("max", scores, [3], name="max")
        e = b.map(lambda v, t: b.exp_not_positive(v - t), scores, top, name="exp")
        total = b.reduce("add", e, [3], name="sum")
        factor = b.map(lambda s: 1.0 / s, total, name="reciprocal")
        value, (shape, out) = b.inputs[2], b.results[0]

        def weighted(n: Index, i: Index, h: Index, d: Index, j: Index) -> Scalar:
            return e[n, h, i, j] * b.wide(value[n, j, h, d])

        mixed = b.reduce_over("add", shape, [e.shape[3]], weighted, e.dtype, "mix")
        return b.compute(
            shape,
            lambda n, i, h, d: b.cast(mixed[n, i, h, d] * factor[n, h, i, 0], out),
            out,
            "attention",
        )

    def _scores(self, b: Builder) -> Buffer:
        """How keys fit queries, -inf where a query does not see a key: [n, h, s, t]."""
        query, key, _, *bias = b.inputs
        attrs, wide = self.python_attrs(), wide_type(query.dtype)
        _refuse_window(attrs["window_size"])
        batch, queries, heads, size = query.shape
        shape = (batch, heads, queries, key.shape[1])

        def product(n: Index, h: Index, i: Index, j: Index, d: Index) -> Scalar:
            return b.wide(query[n, i, h, d]) * b.wide(key[n, j, h, d])

        products = b.reduce_over("add", shape, [size], product, wide, "products")
        reach = _reach(b, attrs["causal_mask"], queries, key.shape[1])

        def score(n: Index, h: Index, i: Index, j: Index) -> Scalar:
            s = products[n, h, i, j] * _factor(b, attrs["scale"], size, wide)
            for extra in bias:
                sizes = zip(extra.shape, (n, h, i, j), strict=True)
                s = s + b.wide(extra[tuple(0 if d == 1 else p for d, p in sizes)])
            if reach is None:
                return s
            return b.select(j <= i + reach, s, b.constant(-np.inf, wide))

        return b.compute(shape, score, wide, "scores")


class AttentionOp(AttentionBaseOp, name="nn_attention"):
    """softmax(query key^T * scale) value, for every head.

    Computed in f32 for f16 and bf16.

    Attributes:
        scale: None stands for 1 / sqrt(d).
        causal_mask: ``TopLeft`` lets query i see the keys up to i, ``BottomRight`` those
            up to i + |t - s|; None lets it see all.
        window_size: how far a query sees; only None, for everywhere, can be computed.
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
        _refuse_window(window_size)
        return _attended(query, key, value, 0.0, scale, causal_mask)


class AttentionBiasOp(AttentionBaseOp, name="nn_attention_bias"):
    """softmax(query key^T * scale + bias) value, for every head.

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
        require("f", query, bias)
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
        _refuse_window(window_size)
        return _attended(query, key, value, bias, scale, causal_mask)


def _infer(
    query: RankedTensorType,
    key: RankedTensorType,
    value: RankedTensorType,
    causal_mask: str | None,
) -> RankedTensorType:
    """The type of the result, [n, s, h, e].

    Raises:
        ValueError: the operands do not fit, or there is no such mask.
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
    return tensors.tensor_type((batch, s, heads, e), require("f", query, key, value))


def _refuse_window(window_size: int | None) -> None:
    """A window has no definition yet.

    Raises:
        ValueError: there is one.
    """
    if window_size is not None:
        raise ValueError(
            f"a window cannot be computed: expected window_size None, got {window_size}"
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
        reach = 0 if causal_mask == "TopLeft" else abs(keys - queries)
        is_seen = np.arange(keys) <= np.arange(queries)[:, None] + reach
        scores = np.where(is_seen, scores, -np.inf)
    e = np.exp(scores - scores.max(3, keepdims=True))
    return np.einsum("nhij,njhd->nihd", e / e.sum(3, keepdims=True), value)


def _factor(b: Builder, scale: float | None, size: Dim, wide: DType) -> Scalar:
    """What products of queries and keys are multiplied by."""
    if scale is not None:
        return b.constant(scale, wide)
    return 1.0 / b.math("sqrt", element_count(b, [size], wide))


def _reach(
    b: Builder, causal_mask: str | None, queries: Dim, keys: Dim
) -> "Index | int | None":
    """How many keys after its own number a query sees; None for all."""
    if causal_mask is None:
        return None
    if causal_mask == "TopLeft":
        return 0
    if isinstance(queries, int) and isinstance(keys, int):
        return abs(keys - queries)
    return b.dim(shapes.maximum(keys - queries, queries - keys))
