"""Models of com.microsoft's operators for mutation, and their schemas in onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from onnx import AttributeProto
from onnx.defs import OpSchema
from onnxruntime.capi import (
    onnxruntime_pybind11_state as runtime,  # pyright: ignore[reportAttributeAccessIssue]
)

from tests.frontends.onnx.node_cases import NodeCase
from tests.frontends.onnx.single_node import node_model

__all__ = ["microsoft_bases", "microsoft_schema"]

_Case = tuple[str, list[np.ndarray | None], int, dict[str, Any]]  # Any: attributes


class _Arrays:
    """Random arrays, the same ones in every process."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(2)

    def floats(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def integers(self, dtype: Any, *shape: int) -> np.ndarray:  # Any: see numpy
        info = np.iinfo(dtype)
        return self._rng.integers(info.min, info.max, shape, dtype, endpoint=True)

    def scales(self, *shape: int) -> np.ndarray:
        return self._rng.uniform(0.01, 0.03, shape).astype(np.float32)


@cache
def microsoft_bases() -> tuple[NodeCase, ...]:
    """Models of the operators of com.microsoft that both we and onnxruntime have."""
    made = _Arrays()
    cases = (*_activations(made), *_attention(made), *_quantized(made))
    return tuple(
        NodeCase(
            f"microsoft_{operator}",
            *node_model(f"com.microsoft::{operator}", inputs, outputs, **attrs),
        )
        for operator, inputs, outputs, attrs in cases
    )


def _activations(made: _Arrays) -> Iterator[_Case]:
    x, y, row = made.floats(2, 3, 8), made.floats(2, 3, 8), made.floats(8)
    yield "Gelu", [x], 1, {}
    yield "QuickGelu", [x], 1, {"alpha": 1.0}
    yield "BiasGelu", [x, row], 1, {}
    yield "FastGelu", [x, row], 1, {}
    for metric in ("euclidean", "sqeuclidean"):
        points = made.floats(4, 3), made.floats(5, 3)
        yield "CDist", [*points], 1, {"metric": metric}
    yield "SkipLayerNormalization", [x, y, row, row, row], 1, {"epsilon": 1e-5}
    yield "SkipLayerNormalization", [x, y[0], row], 1, {}
    yield "SkipSimplifiedLayerNormalization", [x, y, row, row], 1, {}
    yield "FusedMatMul", [x, made.floats(2, 5, 8)], 1, {"transB": 1, "alpha": 0.5}
    turned = [made.floats(4, 2, 3), made.floats(2, 4, 5)]
    yield "FusedMatMul", [*turned], 1, {"transA": 1, "transBatchA": 1}
    yield "TransposeMatMul", [x, made.floats(2, 5, 8)], 1, {"transB": 1}
    picture, kernel = made.floats(1, 2, 5, 5), made.floats(3, 2, 3, 3)
    leaky: dict[str, Any] = {"activation": "LeakyRelu", "activation_params": [0.1]}
    yield "FusedConv", [picture, kernel, None, made.floats(1, 3, 3, 3)], 1, leaky
    clip: dict[str, Any] = {"activation": "Clip", "activation_params": [-0.1, 0.2]}
    yield "FusedConv", [picture, kernel, made.floats(3)], 1, clip
    words = np.array([[1, 7, 3], [0, 2, 9]], np.int32)
    tables = [made.floats(n, 8) for n in (10, 6, 2)]
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield "EmbedLayerNormalization", [words, words % 2, *tables, row, row, mask], 2, {}
    lines = np.array(["ab c  d", "", "a-b c"], object)
    marks: dict[str, Any] = {"mark": 1, "mincharnum": 1, "pad_value": "#"}
    yield "Tokenizer", [lines], 1, {**marks, "separators": [" ", "-"]}
    yield "Tokenizer", [lines], 1, {**marks, "tokenexp": "[a-z]+"}


def _attention(made: _Arrays) -> Iterator[_Case]:
    x, keys, heads = made.floats(2, 3, 8), made.floats(2, 5, 8), {"num_heads": 2}
    whole = [x, made.floats(8, 24), made.floats(24)]
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield "Attention", [*whole], 1, heads
    yield "Attention", [*whole, np.array([2, 3], np.int32)], 1, heads
    yield "Attention", [*whole, np.array([2, 3, 0, 1], np.int32)], 1, heads
    yield "Attention", [*whole, mask], 1, {**heads, "mask_filter_value": -5.0}
    past = made.floats(2, 2, 2, 5, 4)
    yield "Attention", [*whole, None, past], 2, {**heads, "unidirectional": 1}
    yield "Attention", [*whole, None, None, made.floats(2, 2, 3, 3)], 1, heads
    yield "MultiHeadAttention", [x, keys, keys], 1, {**heads, "scale": 0.3}
    yield "MultiHeadAttention", [x, keys, keys, made.floats(24)], 1, heads
    ends = np.array([2, 4], np.int32)
    yield "MultiHeadAttention", [x, keys, keys, None, ends], 1, heads
    before = [made.floats(2, 2, 5, 4), made.floats(2, 2, 5, 4)]
    parts = [x, x, x, None, None, None, *before]
    yield "MultiHeadAttention", parts, 3, {**heads, "unidirectional": 1}
    places = np.array([[0, 1, 2], [3, 4, 5]])
    angles = [made.floats(8, 2), made.floats(8, 2)]
    yield "RotaryEmbedding", [made.floats(2, 2, 3, 4), places, *angles], 1, {}
    yield "RotaryEmbedding", [x, np.array([2]), *angles], 1, {"interleaved": 1}
    grouped: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    for length, kept, ends, attrs in (
        (3, 0, (2, 2), {}),
        (1, 5, (5, 3), {"local_window_size": 3, "softcap": 2.0}),
        (1, 5, (5, 3), {"do_rotary": 1}),
    ):
        inputs = [made.floats(2, length, width) for width in (64, 32, 32)]
        inputs += [made.floats(2, 2, kept, 16) for _ in range(2)]
        total = np.array(length + kept, np.int32)
        inputs += [np.array(ends, np.int32), total]
        inputs += [made.floats(9, 8) for _ in range(2) if attrs.get("do_rotary")]
        yield "GroupQueryAttention", [*inputs], 3, {**grouped, **attrs}


def _quantized(made: _Arrays) -> Iterator[_Case]:
    a, b = made.integers(np.uint8, 3, 10), made.integers(np.int8, 10, 4)
    one, four = made.scales(), made.scales(4)
    zero, signed = np.array(99, np.uint8), np.array(3, np.int8)
    zeros, large = made.integers(np.int8, 4), np.array(0.9, np.float32)
    added = np.arange(4, dtype=np.int32)
    product = [a, one, zero, b, one, signed, added]
    yield "QGemm", [*product, large, zero], 1, {"alpha": 0.5}
    yield "QGemm", product[:6], 1, {}
    yield "MatMulIntegerToFloat", [a, b, one, four, zero, zeros], 1, {}
    floats = made.floats(3, 10)
    yield "DynamicQuantizeMatMul", [floats, b, four, zeros, made.floats(4)], 1, {}
    rows = made.floats(3, 40)
    sizes: dict[str, Any] = {"K": 40, "N": 6, "block_size": 16}
    halves = made.integers(np.uint8, 6, 3, 8)
    yield "MatMulNBits", [rows, halves, made.scales(18)], 1, {**sizes, "bits": 4}
    points = made.integers(np.uint8, 12)
    inputs = [rows, halves, made.scales(18), points]
    yield "MatMulNBits", [*inputs], 1, {**sizes, "bits": 4}
    yield (
        "QuantizeLinear",
        [floats, made.scales(3), np.zeros(3, np.int8)],
        1,
        {"axis": 0},
    )
    yield "DequantizeLinear", [b, four, zeros], 1, {"axis": 1}
    x = made.integers(np.uint8, 2, 3, 4, 4)
    given, out = [x, one, zero], [np.array(0.03, np.float32), np.array(128, np.uint8)]
    yield "QLinearAdd", [*given, *given, *out], 1, {}
    yield "QLinearMul", [*given, *given, *out], 1, {}
    yield "QLinearConcat", [*out, *given, *given], 1, {"axis": 1}
    is_left = np.array([True, False, False, True])
    yield "QLinearWhere", [is_left, *given, *given, *out], 1, {}
    yield "QLinearSigmoid", [*given, *out], 1, {}
    yield "QLinearLeakyRelu", [*given, *out], 1, {"alpha": 0.2}
    yield "QLinearGlobalAveragePool", [*given, *out], 1, {}
    yield "QLinearAveragePool", [*given, *out], 1, {"kernel_shape": [2, 2]}
    yield "QLinearSoftmax", [*given, *out], 1, {"axis": 1, "opset": 13}
    kernel, three = made.integers(np.int8, 2, 3, 3, 3), made.scales(2)
    inputs = [*given, kernel, three, np.zeros(2, np.int8), large, zero]
    yield "QLinearConv", inputs, 1, {"pads": [1, 0, 0, 1]}
    weight, bias = made.integers(np.uint8, 16, 48), made.floats(48)
    own = made.integers(np.uint8, 2, 5, 16)
    attention = [own, weight, bias, one, one, None, zero, zero]
    yield "QAttention", attention, 1, {"num_heads": 4}
    ends = np.array([3, 5], np.int32)
    attention = [*attention[:5], ends, *attention[6:]]
    yield "QAttention", attention, 1, {"num_heads": 2, "unidirectional": 1}


@cache
def microsoft_schema(operator: str) -> OpSchema | None:
    """The schema of an operator of com.microsoft; None if onnxruntime has none."""
    for schema in runtime.get_all_operator_schema():
        if (schema.domain, schema.name) == ("com.microsoft", operator):
            break
    else:
        return None
    inputs, outputs = (
        [OpSchema.FormalParameter(p.name, p.typeStr) for p in formal]
        for formal in (schema.inputs, schema.outputs)
    )
    return OpSchema(
        operator,
        "com.microsoft",
        schema.since_version,
        inputs=inputs,
        outputs=outputs,
        type_constraints=[
            (c.type_param_str, list(c.allowed_type_strs), "")
            for c in schema.type_constraints
        ],
        attributes=[_attribute(a) for a in schema.attributes.values()],
    )


def _attribute(attribute: Any) -> OpSchema.Attribute:  # Any: it has no stub
    default = AttributeProto.FromString(attribute._default_value)
    if default.name:
        return OpSchema.Attribute(attribute.name, default)
    kind = getattr(OpSchema.AttrType, attribute.type.name)
    return OpSchema.Attribute(attribute.name, kind, required=False)
