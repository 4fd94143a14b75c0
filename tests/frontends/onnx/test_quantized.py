"""Quantized operators, integer matmuls, and sub-byte element types."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import expected, model_with, run_by_numpy

_RNG = np.random.default_rng(0)
_OTHERS = "com.microsoft."


def _integers(*shape: int, dtype: Any = np.uint8) -> np.ndarray:  # Any: see numpy
    info = np.iinfo(dtype)
    return _RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def _signed(*shape: int) -> np.ndarray:
    return _integers(*shape, dtype=np.int8)


def _scales(*shape: int) -> np.ndarray:
    return _RNG.uniform(0.01, 0.03, shape).astype(np.float32)


def _floats(*shape: int) -> np.ndarray:
    return _RNG.uniform(-2, 2, shape).astype(np.float32)


def _zero(value: int, dtype: Any = np.uint8) -> np.ndarray:  # Any: see numpy
    return np.array(value, dtype)


_A, _B = _integers(3, 35), _signed(35, 4)
_IMAGE, _KERNEL = _integers(1, 4, 7, 6), _signed(6, 4, 3, 3)
_PRODUCT = {"a": _A, "b": _B, "za": _zero(7)}
_CONV = {"x": _IMAGE, "w": _KERNEL, "zx": _zero(11)}
_QCONV = {
    "x": _IMAGE,
    "sx": _scales(),
    "zx": _zero(99),
    "w": _KERNEL,
    "sw": _scales(6),
    "zw": np.zeros(6, np.int8),
    "sy": np.array(0.9, np.float32),
    "zy": _zero(120),
    "bias": _integers(6, dtype=np.int16).astype(np.int32),
}
_QPRODUCT = {
    "a": _A,
    "sa": _scales(),
    "za": _zero(99),
    "b": _B,
    "sb": _scales(4),
    "zb": np.zeros(4, np.int8),
    "sy": np.array(0.9, np.float32),
    "zy": _zero(120),
}
_SCALED = {"a": _A, "b": _B, "sa": _scales(), "sb": _scales(4), "za": _zero(9)}
_SQUARE = {**_SCALED, "b": _A.T, "sb": _scales()}
_SLICES = {"x": _floats(3, 40), "s": _scales(3), "z": _signed(3)}
_BLOCKS = {"x": _floats(3, 35), "s": _scales(3, 5), "z": _signed(3, 5)}


@pytest.mark.parametrize(
    ("body", "feeds", "constants"),
    [
        ("y = MatMulInteger (a, b, za)", _PRODUCT, ()),
        (
            "y = MatMulInteger (a, b, za, zb)",
            {**_PRODUCT, "a": _integers(2, 3, 35), "zb": _signed(4)},
            (),
        ),
        ("y = MatMulInteger (a, b, za, zb)", {**_PRODUCT, "zb": _signed(4)}, ("b",)),
        ("y = MatMulInteger (a, b)", {"a": _integers(35), "b": _B}, ()),
        ("y = ConvInteger <pads = [1, 2, 0, 1]> (x, w, zx)", _CONV, ()),
        ("y = ConvInteger <strides = [2, 1]> (x, w, zx)", _CONV, ("w", "zx")),
        (
            "y = ConvInteger <pads = [1, 1, 1, 1], group = 2> (x, w, zx, zw)",
            {**_CONV, "w": _integers(6, 2, 3, 3), "zw": _zero(5)},
            ("w", "zw"),
        ),
        ('y = ConvInteger <auto_pad = "SAME_UPPER"> (x, w)', _CONV, ("zx",)),
        (
            "y = QLinearConv <pads = [1, 1, 1, 1]> (x, sx, zx, w, sw, zw, sy, zy, bias)",
            _QCONV,
            ("w", "sw", "zw", "bias"),
        ),
        ("y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)", _QPRODUCT, ()),
        ("y = QuantizeLinear <axis = 0> (x, s, z)", _SLICES, ()),
        ("y = QuantizeLinear <axis = -1, block_size = 8> (x, s, z)", _BLOCKS, ()),
        (
            "y = DequantizeLinear <axis = -1, block_size = 7> (x, s, z)",
            {**_BLOCKS, "x": _signed(3, 35)},
            (),
        ),
        (f"y = {_OTHERS}QuantizeLinear <axis = 0> (x, s, z)", _SLICES, ()),
        (
            (
                f"y = {_OTHERS}QGemm <transB = 1, alpha = 0.5>"
                " (a, sa, za, b, sb, zb, c, sy, zy)"
            ),
            {
                **_QPRODUCT,
                "b": _signed(4, 35),
                "sb": _scales(),
                "zb": _zero(3, np.int8),
                "c": np.arange(4, dtype=np.int32),
            },
            ("b",),
        ),
        (f"y = {_OTHERS}QGemm (a, sa, za, b, sb, za)", _SQUARE, ()),
    ],
)
def test_integer_results_match_onnxruntime(
    body: str, feeds: dict[str, np.ndarray], constants: tuple[str, ...]
) -> None:
    words = re.findall(r"\w+", body)
    used = {name: array for name, array in feeds.items() if name in words}
    model = model_with(body, used, constants)

    (actual,) = run_by_numpy(model, used)

    given = {v.name: used[v.name] for v in model.graph.input}
    (wanted,) = expected(model, given)
    np.testing.assert_array_equal(actual, wanted)
    assert actual.dtype == wanted.dtype


@pytest.mark.parametrize(
    ("body", "feeds", "constants"),
    [
        ("MatMulIntegerToFloat (a, b, sa, sb, za)", _SCALED, ()),
        (
            "DynamicQuantizeMatMul (a, b, sb, zb, c)",
            {
                "a": _floats(3, 35),
                "b": _B,
                "sb": _scales(4),
                "zb": _signed(4),
                "c": _floats(4),
            },
            ("b",),
        ),
        (
            "MatMulNBits <K = 40, N = 6, bits = 4, block_size = 16> (a, b, s)",
            {"a": _floats(3, 40), "b": _integers(6, 3, 8), "s": _scales(18)},
            ("b", "s"),
        ),
        (
            "MatMulNBits <K = 40, N = 6, bits = 4, block_size = 16> (a, b, s, z)",
            {
                "a": _floats(3, 40),
                "b": _integers(6, 3, 8),
                "s": _scales(18),
                "z": _integers(12),
            },
            ("b", "s", "z"),
        ),
        (
            "MatMulNBits <K = 32, N = 6, bits = 8, block_size = 16> (a, b, s)",
            {"a": _floats(3, 32), "b": _integers(6, 2, 16), "s": _scales(12)},
            ("b", "s"),
        ),
    ],
)
def test_dequantized_results_match_onnxruntime(
    body: str, feeds: dict[str, np.ndarray], constants: tuple[str, ...]
) -> None:
    model = model_with(f"y = {_OTHERS}{body}", feeds, constants)

    (actual,) = run_by_numpy(model, feeds)

    (wanted,) = expected(model, {v.name: feeds[v.name] for v in model.graph.input})
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)  # other orders


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_dynamic_quantization_uses_minimum_and_maximum(scale: float) -> None:
    feeds = {"x": _floats(3, 40) * np.float32(scale)}
    model = model_with(
        "y, s, z = DynamicQuantizeLinear (x)", feeds, (), ("y", "s", "z")
    )

    actual = run_by_numpy(model, feeds)

    for mine, theirs in zip(actual, expected(model, feeds), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)], ids=str)
def test_zero_and_empty_tensors_have_a_scale(shape: tuple[int, ...]) -> None:
    feeds = {"x": np.zeros(shape, np.float32)}
    model = model_with(
        "y, s, z = DynamicQuantizeLinear (x)", feeds, (), ("y", "s", "z")
    )

    actual = run_by_numpy(model, feeds)

    for mine, theirs in zip(actual, expected(model, feeds), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_weights_stay_8_bit() -> None:
    """Their sums are constants; nothing as large as the weights is wider than they are."""
    feeds = {"a": _A, "b": _B, "za": _zero(7)}
    model = model_with("y = MatMulInteger (a, b, za)", feeds, ("b",))

    text = str(import_onnx(model))

    assert "tensor<35x4xi8>" in text
    assert "tensor<35x4xi32>" not in text


_DECODED = "d = DequantizeLinear (a, sa, za) e = DequantizeLinear"


@pytest.mark.parametrize(
    ("body", "feeds", "constants"),
    [
        (f"{_DECODED} <axis = 1> (b, sb, zb) y = MatMul (d, e)", _QPRODUCT, ()),
        (
            f"{_DECODED} <axis = 0> (b, sb, zb) y = Gemm <transB = 1> (d, e, c)",
            {**_QPRODUCT, "b": _signed(4, 35), "c": _floats(4)},
            ("b", "zb"),
        ),
        (
            (
                "d = DequantizeLinear (x, sx, zx) e = DequantizeLinear <axis = 0> (w, sw, zw)"
                " y = Conv <pads = [1, 1, 1, 1]> (d, e)"
            ),
            _QCONV,
            ("w", "zw"),
        ),
    ],
)
def test_qdq_matmuls_are_integer_matmuls(
    body: str, feeds: dict[str, np.ndarray], constants: tuple[str, ...]
) -> None:
    words = re.findall(r"\w+", body)
    used = {name: array for name, array in feeds.items() if name in words}
    model = model_with(body, used, constants)

    module = import_onnx(model)

    given = {v.name: used[v.name] for v in model.graph.input}
    (actual,) = reference.run(module, *given.values())
    (wanted,) = expected(model, given)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)  # other orders
    products = re.findall(r"relax.(?:matmul|nn_conv2d).*: \((.*)\) ->", str(module))
    assert len(products) == 1
    assert "f32" not in products[0]


@pytest.mark.parametrize(
    ("body", "constants"),
    [
        ("e = DequantizeLinear <axis = 1> (b, sb, zb) y = MatMul (a, e)", ("b", "zb")),
        ("i = Cast <to = 1> (b) e = Mul (i, sb) y = MatMul (a, e)", ()),
        ("i = Cast <to = 1> (b) e = Mul (sb, i) y = MatMul (a, e)", ("sb",)),
    ],
)
def test_weight_only_quantized_matmul_reads_8_bit_weights(
    body: str, constants: tuple[str, ...]
) -> None:
    feeds = {**_QPRODUCT, "a": _floats(3, 35)}
    words = re.findall(r"\w+", body)
    used = {name: array for name, array in feeds.items() if name in words}
    model = model_with(body, used, constants)

    module = import_onnx(model)

    given = {v.name: used[v.name] for v in model.graph.input}
    (actual,) = reference.run(module, *given.values())
    (wanted,) = expected(model, given)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)  # other orders
    assert re.search(r"relax.matmul.*tensor<35x4xi8>\) -> tensor<3x4xf32>", str(module))


@pytest.mark.parametrize("shape", [(20, 20), (300,)])
def test_scale_can_add_axes(shape: tuple[int, ...]) -> None:
    feeds = {
        "w": _signed(*shape),
        "k": np.full((1,) * (len(shape) + 1), 0.5, np.float32),
        "x": _floats(3, shape[0]),
    }
    body = "c = Cast <to = 1> (w) s = Mul (c, k) "
    body += "y = MatMul (x, s)" if len(shape) == 2 else "y = MatMul (s, x)"
    feeds["x"] = feeds["x"] if len(shape) == 2 else _floats(300, 4)
    model = model_with(body, feeds, ("w", "k"))

    (actual,) = run_by_numpy(model, feeds)

    (wanted,) = expected(model, {"x": feeds["x"]})
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-3)  # other orders


def test_sums_that_could_overflow_stay_float() -> None:
    """A dot product of 33,026 pairs of bytes can overflow i32."""
    feeds = {**_QPRODUCT, "a": _integers(1, 33026), "b": _signed(33026, 4)}
    body = f"{_DECODED} <axis = 1> (b, sb, zb) y = MatMul (d, e)"
    words = re.findall(r"\w+", body)
    used = {name: array for name, array in feeds.items() if name in words}

    module = import_onnx(model_with(body, used))

    (product,) = re.findall(r"relax.matmul.*: \((.*)\) ->", str(module))
    assert "i8" not in product


_SELF = {
    "x": _integers(2, 5, 12),
    "w": _signed(12, 48),
    "b": _floats(48),
    "sx": _scales(),
    "sw": _scales(),
    "zx": _zero(100),
    "zw": _zero(3, np.int8),
}


@pytest.mark.parametrize(
    ("attrs", "mask"),
    [
        ("num_heads = 4", None),
        ("num_heads = 4, unidirectional = 1", None),
        ("num_heads = 2", np.array([3, 5], np.int32)),
        ("num_heads = 2", np.array([3, 5, 1, 2], np.int32)),  # ends, then beginnings
        ("num_heads = 4", np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1]], np.int32)),
    ],
)
def test_quantized_attention_matches_onnxruntime(
    attrs: str, mask: np.ndarray | None
) -> None:
    feeds = _SELF if mask is None else {**_SELF, "m": mask}
    place = "" if mask is None else "m"
    body = f"y = {_OTHERS}QAttention <{attrs}> (x, w, b, sx, sw, {place}, zx, zw)"
    model = model_with(body, feeds, ("w", "b"))

    (actual,) = run_by_numpy(model, feeds)

    (wanted,) = expected(model, {v.name: feeds[v.name] for v in model.graph.input})
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)  # other orders


def test_quantized_attention_uses_the_kv_cache() -> None:
    feeds = {**_SELF, "past": _floats(2, 2, 4, 3, 4)}
    body = (
        f"y, p = {_OTHERS}QAttention <num_heads = 4, unidirectional = 1>"
        " (x, w, b, sx, sw, , zx, zw, past)"
    )
    model = model_with(body, feeds, ("w", "b"), ("y", "p"))

    actual = run_by_numpy(model, feeds)

    given = {v.name: feeds[v.name] for v in model.graph.input}
    for mine, theirs in zip(actual, expected(model, given), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)  # other orders


_BETWEEN = {
    "x": _integers(2, 3, 8, 8),
    "sx": _scales(),
    "zx": _zero(100),
    "b": _integers(2, 3, 8, 8),
    "sy": np.array(0.03, np.float32),
    "zy": _zero(128),
}


@pytest.mark.parametrize(
    "node",
    [
        "QLinearAdd (x, sx, zx, b, sx, zx, sy, zy)",
        "QLinearMul (x, sx, zx, b, sx, zx, sy, zy)",
        "QLinearConcat <axis = 1> (sy, zy, x, sx, zx, b, sx, zx)",
        "QLinearSigmoid (x, sx, zx, sy, zy)",
        "QLinearLeakyRelu <alpha = 0.2> (x, sx, zx, sy, zy)",
        "QLinearGlobalAveragePool (x, sx, zx, sy, zy)",
        "QLinearAveragePool <kernel_shape = [2, 2]> (x, sx, zx, sy, zy)",
        "QLinearSoftmax <axis = 1, opset = 13> (x, sx, zx, sy, zy)",
    ],
)
def test_qlinear_results_differ_by_at_most_one_step(node: str) -> None:
    words = re.findall(r"\w+", node)
    feeds = {name: array for name, array in _BETWEEN.items() if name in words}
    constants = () if "Global" in node else ("sx", "zx", "sy", "zy")
    model = model_with(f"y = {_OTHERS}{node}", feeds, constants)

    (actual,) = run_by_numpy(model, feeds)

    (wanted,) = expected(model, {v.name: feeds[v.name] for v in model.graph.input})
    assert actual.dtype == wanted.dtype
    assert np.abs(actual.astype(int) - wanted).max() <= 1


_PAIR = {"x": _floats(3, 4), "s": _scales(5)}


@pytest.mark.parametrize(
    ("body", "feeds", "message"),
    [
        ("y = QuantizeLinear (x, s)", _PAIR, r"scale: expected .*\[4\].* got \[5\]"),
        ("y = QuantizeLinear <axis = 2> (x, s)", _PAIR, "axis"),
        (
            "y = QuantizeLinear <output_dtype = 3> (x, s, z)",
            {**_SLICES, "z": _integers(3)},
            "output_dtype: expected the type of the zero point, uint8, got int8",
        ),
        (
            "y = DequantizeLinear (x, s, z)",
            {"x": _signed(3, 4), "s": _scales(4), "z": _integers(4)},
            "zero_point: expected element type int8, got uint8",
        ),
        (
            "y = DequantizeLinear (x, s, b)",
            {
                "x": np.zeros((3, 4), ml_dtypes.float8_e5m2),
                "s": _scales(4),
                "b": np.ones(4, ml_dtypes.float8_e5m2),
            },
            "zero point: expected 0 for float8_e5m2",
        ),
        (
            "y = QuantizeLinear (x, s, z)",
            _BLOCKS,
            r"scale: expected one axis without `block_size`, got shape \[3, 5\]",
        ),
        (
            (
                f"y = {_OTHERS}MatMulNBits <K = 40, N = 6, bits = 4, block_size = 16>"
                " (a, b, s)"
            ),
            {"a": _floats(3, 40), "b": np.zeros((6, 2, 8), np.uint8), "s": _scales(18)},
            r"input 1: expected 6 rows of 3 blocks of 16 elements, got uint8 of shape \[6, 2, 8\]",
        ),
        (
            f"y = {_OTHERS}QAttention <num_heads = 5> (x, w, b, sx, sw)",
            {
                **{name: _SELF[name] for name in ("x", "w", "sx", "sw")},
                "b": _SELF["b"],
            },
            "input 1: expected a multiple of 5 features, got 16",
        ),
    ],
)
def test_mismatched_quantized_operands_are_rejected(
    body: str, feeds: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        import_onnx(model_with(body, feeds, ("b",)))


def test_quantized_matmuls_can_have_symbolic_sizes() -> None:
    feeds = {"a": _A, "b": _B, "za": _zero(7)}
    model = model_with("y = MatMulInteger (a, b, za)", feeds, ("b",))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"

    module: IRModule = import_onnx(model)

    (actual,) = reference.run(module, _A[:2], _zero(7))
    wide = (_A[:2].astype(np.int32) - 7) @ _B.astype(np.int32)
    np.testing.assert_array_equal(actual, wide)
