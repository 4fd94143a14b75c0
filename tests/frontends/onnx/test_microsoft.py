"""Fused operators of com.microsoft agree with onnxruntime."""

import re
from typing import Any

import numpy as np
import onnx
import pytest

from relax_mlir import compile
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError, UnsupportedError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.runtime.ndarray import as_numpy
from tests.frontends.onnx.differential import assert_same_numbers, expected, random
from tests.frontends.onnx.microsoft_cases import microsoft_bases
from tests.frontends.onnx.node_cases import NodeCase
from tests.frontends.onnx.single_node import node_model

_ONES = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
_X, _Y, _G = random(2, 3, 8), random(2, 3, 8) * 2, random(8)
_WEIGHT, _BIAS = random(8, 24), random(24)
_KEYS = random(2, 5, 8)
_IDS = np.array([[1, 7, 3], [0, 2, 9]], np.int32)
_TABLES = [random(10, 8), random(6, 8), random(2, 8), random(8), random(8) + 1]
_PIXELS, _KERNEL = random(1, 2, 5, 5), random(3, 2, 3, 3)
_TOTAL = np.array(6, np.int32)


def _lengths(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "attrs"),
    [
        ("Gelu", [_X], 1, {}),
        ("QuickGelu", [_X], 1, {}),
        ("QuickGelu", [_X], 1, {"alpha": 1.0}),
        ("BiasGelu", [_X, _G], 1, {}),
        ("CDist", [random(4, 3), random(5, 3) + 1], 1, {"metric": "euclidean"}),
        ("CDist", [random(4, 3), random(5, 3) + 1], 1, {"metric": "sqeuclidean"}),
        ("FastGelu", [_X, _G], 1, {}),
        ("FastGelu", [_X], 1, {}),
        (
            "SkipLayerNormalization",
            [_X, _Y, _G, _G, _G],
            [True, False, False, True],
            {"epsilon": 1e-5},
        ),
        ("SkipLayerNormalization", [_X, _Y[0], _G], 1, {}),
        (
            "SkipSimplifiedLayerNormalization",
            [_X, _Y, _G, _G],
            [True, False, False, True],
            {},
        ),
        ("FusedMatMul", [_X, _KEYS], 1, {"transB": 1, "alpha": 0.5}),
        ("FusedMatMul", [random(4, 3), random(4, 5)], 1, {"transA": 1}),
        (
            "FusedMatMul",
            [random(4, 2, 3), random(2, 4, 5)],
            1,
            {"transA": 1, "transBatchA": 1},
        ),
        (
            "FusedConv",
            [_PIXELS, _KERNEL, None, random(1, 3, 3, 3)],
            1,
            {"activation": "LeakyRelu", "activation_params": [0.1]},
        ),
        (
            "FusedConv",
            [_PIXELS, _KERNEL],
            1,
            {"activation": "Clip", "activation_params": [-0.1, 0.2]},
        ),
        (
            "EmbedLayerNormalization",
            [_IDS, _IDS % 2, *_TABLES, _ONES],
            3,
            {"epsilon": 1e-5},
        ),
        (
            "EmbedLayerNormalization",
            [_IDS, None, *_TABLES[:2], None, *_TABLES[3:]],
            2,
            {},
        ),
    ],
)
def test_operator_agrees_with_onnxruntime(
    operator: str, inputs: list[Any], outputs: Any, attrs: dict[str, Any]
) -> None:
    model, feeds = node_model(f"com.microsoft::{operator}", inputs, outputs, **attrs)

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "attrs"),
    [
        ("Attention", [_X, _WEIGHT, _BIAS], 1, {}),
        ("Attention", [_X, _WEIGHT, _BIAS, _lengths(2, 3)], 1, {}),
        ("Attention", [_X, _WEIGHT, _BIAS, _lengths(2, 3, 0, 1)], 1, {}),
        ("Attention", [_X, _WEIGHT, _BIAS, _ONES], 1, {"mask_filter_value": -5.0}),
        (
            "Attention",
            [_X, _WEIGHT, _BIAS, None, random(2, 2, 2, 5, 4)],
            2,
            {"unidirectional": 1},
        ),
        ("Attention", [_X, _WEIGHT, _BIAS, None, None, random(2, 2, 3, 3)], 1, {}),
        ("MultiHeadAttention", [_X, _KEYS, random(2, 5, 6)], 1, {"scale": 0.3}),
        ("MultiHeadAttention", [_X, _KEYS, _KEYS, _BIAS], 1, {}),
        (
            "MultiHeadAttention",
            [_X, random(2, 2, 5, 4), random(2, 2, 5, 4) * 2],
            1,
            {},
        ),
        (
            "MultiHeadAttention",  # what is projected already has its bias
            [_X, random(2, 2, 5, 4), random(2, 2, 5, 4) * 2, _BIAS],
            1,
            {},
        ),
        ("MultiHeadAttention", [_X, _KEYS, _KEYS, None, _lengths(2, 4)], 1, {}),
        (
            "MultiHeadAttention",
            [_X, _Y, _Y, None, None, None, *[random(2, 2, 5, 4)] * 2],
            3,
            {"unidirectional": 1},
        ),
        (
            "RotaryEmbedding",
            [_X, np.array([[0, 1, 2], [3, 4, 5]]), *[random(8, 2)] * 2],
            1,
            {},
        ),
        (
            "RotaryEmbedding",
            [random(2, 2, 3, 4), np.array([2]), *[random(8, 2)] * 2],
            1,
            {"interleaved": 1},
        ),
    ],
)
def test_attention_agrees_with_onnxruntime(
    operator: str, inputs: list[Any], outputs: Any, attrs: dict[str, Any]
) -> None:
    heads = {} if operator == "RotaryEmbedding" else {"num_heads": 2}
    model, feeds = node_model(
        f"com.microsoft::{operator}", inputs, outputs, **heads, **attrs
    )

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("shape", [None, (2, "s", 8)])
def test_cross_attention_starts_at_the_first_key(
    length: int, shape: tuple[int | str, ...] | None
) -> None:
    """The last one sees all keys, whichever it is: so onnxruntime does it."""
    model, feeds = node_model(
        "com.microsoft::MultiHeadAttention",
        [_X[:, :length], _KEYS, _KEYS],
        num_heads=2,
        unidirectional=1,
    )
    shapes = {} if shape is None else {"i0": shape}

    assert_same_numbers(model, feeds, shapes=shapes)


def test_packed_inputs_equal_separate_inputs() -> None:
    """onnxruntime has no CPU kernel for these."""
    q, k, v = random(2, 3, 2, 4), random(2, 3, 2, 4) * 2, random(2, 3, 2, 4) - 1
    flat = [x.reshape(2, 3, 8) for x in (q, k, v)]
    forms = ([np.stack([q, k, v], 3)], [flat[0], np.stack([k, v], 3)])
    apart, feeds = node_model("com.microsoft::MultiHeadAttention", flat, num_heads=2)
    wanted = _run(apart, feeds)

    for inputs in forms:
        model, feeds = node_model(
            "com.microsoft::MultiHeadAttention", inputs, num_heads=2
        )
        np.testing.assert_allclose(_run(model, feeds), wanted, rtol=1e-6)


def _run(model: Any, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return reference.run(import_onnx(model), *feeds.values())[0]


@pytest.mark.parametrize(
    ("length", "past", "ends", "total", "attrs"),
    [
        (3, 0, (2, 2), 3, {}),
        (3, 6, (1, 2), 3, {}),  # a shorter sequence, in memory that is there already
        (1, 5, (5, 3), 6, {"local_window_size": 3, "softcap": 2.0, "scale": 0.5}),
        (1, 5, (5, 3), 6, {"do_rotary": 1}),
        (1, 5, (4, 3), 6, {"do_rotary": 1, "rotary_interleaved": 1}),
    ],
)
def test_grouped_query_attention(
    length: int, past: int, ends: tuple[int, int], total: int, attrs: dict[str, Any]
) -> None:
    heads = [random(2, length, width) for width in (64, 32, 32)]
    memory = [random(2, 2, past, 16), random(2, 2, past, 16) * 2]
    angles = [random(9, 8)] * 2 if "do_rotary" in attrs else []
    inputs = [*heads, *memory, _lengths(*ends), np.array(total, np.int32), *angles]
    model, feeds = node_model(
        "com.microsoft::GroupQueryAttention",
        inputs,
        3,
        known=(6,),
        num_heads=4,
        kv_num_heads=2,
        **attrs,
    )

    assert_same_numbers(model, feeds)


@pytest.mark.parametrize(
    ("operator", "inputs", "attrs", "error", "message"),
    [
        ("Gelu", [_X, _X], {}, ModelError, "expected up to 1, got 2"),
        ("QuickGelu", [_X], {"alhpa": 1.0}, ModelError, "expected `alpha`. Did you"),
        ("CDist", [_X, _X], {}, ModelError, r"input 0: expected \[n, k\], got"),
        ("BiasGelu", [_X, _G[:1]], {}, ModelError, r"expected \[8\], got \[1\]"),
        ("FastGelu", [_X, _G[:1]], {}, ModelError, r"expected \[8\], got \[1\]"),
        ("FusedMatMul", [_X, _KEYS], {"transB": 2}, ModelError, "0 or 1, got 2"),
        (
            "SkipLayerNormalization",
            [_X, np.float32(1), _G],
            {},
            ModelError,
            "input 1: expected rank 2 or 3, got 0",
        ),
        (
            "SkipSimplifiedLayerNormalization",
            [_X, _Y, _G],
            {"epsilon": -1.0},
            ModelError,
            "`epsilon`: expected 0 or more",
        ),
        (
            "MultiHeadAttention",
            [_X, _KEYS, _KEYS],
            {"num_heads": 2, "unidirectional": 2},
            ModelError,
            "`unidirectional`: expected 0 or 1, got 2",
        ),
        *(
            (
                "RotaryEmbedding",
                [_X, np.array([2]), random(9, pairs), random(9, 2)],
                attrs,
                ModelError,
                message,
            )
            for pairs, attrs, message in (
                (2, {"num_heads": 3}, "expected a multiple of 3 features, got 8"),
                (3, {"num_heads": 2}, r"input 3: expected \[9, 3\], got \[9, 2\]"),
                (2, {"num_heads": 1}, r"input 2: expected \[9, 4\], got \[9, 2\]"),
                (2, {"rotary_embedding_dim": 2}, "or `num_heads` with it, got 2"),
            )
        ),
        (
            "QLinearConcat",
            [np.float32(1), np.uint8(0), np.zeros(1, np.uint8), np.float32(1)],
            {"axis": 0},
            ModelError,
            "tensors with one of each, got 4 inputs",
        ),
        (
            "FusedConv",
            [_PIXELS, _KERNEL],
            {"activation": "Swish"},
            UnsupportedError,
            "`activation`: expected one of Relu, .* got 'Swish'",
        ),
        (
            "Attention",
            [_X, _WEIGHT],
            {"num_heads": 3},
            ModelError,
            "expected a multiple of 3 features, got 8",
        ),
        (
            "Attention",
            [_X, _WEIGHT],
            {"num_heads": 2, "do_rotary": 1},
            UnsupportedError,
            "`do_rotary` is not supported",
        ),
        (
            "MultiHeadAttention",
            [_X],
            {"num_heads": 2},
            ModelError,
            "input 1 is missing, and input 0 holds no keys",
        ),
        (
            "GroupQueryAttention",
            [_X, _X, _X, None, None, _lengths(2, 2), _TOTAL],
            {"num_heads": 4, "kv_num_heads": 3},
            ModelError,
            "num_heads: expected a multiple of kv_num_heads 3, got 4",
        ),
    ],
)
def test_invalid_nodes_are_rejected(
    operator: str,
    inputs: list[Any],
    attrs: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    model, _ = node_model(f"com.microsoft::{operator}", inputs, **attrs)

    with pytest.raises(error, match=message):
        import_onnx(model)


_OF_OPEN_SIZES = [
    case
    for case in microsoft_bases()
    if re.search("Attention|Rotary|Sigmoid|Concat", case.name)
]


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("case", _OF_OPEN_SIZES, ids=lambda c: c.name)
def test_all_sizes_can_be_symbolic(case: NodeCase) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"

    actual = compile(import_onnx(model))(*case.feeds.values())

    wanted = expected(model, case.feeds)
    for mine, theirs in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(
            as_numpy(mine).astype(float),
            theirs.astype(float),
            rtol=1e-4,
            atol=1 if theirs.dtype == np.uint8 else 1e-4,
        )
