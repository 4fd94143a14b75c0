"""Data-dependent operators of the host runtime, and random numbers."""

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest

from relax_mlir import compile
from relax_mlir.compiler import reference
from relax_mlir.errors import RelaxError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.runtime.ndarray import as_numpy
from tests.frontends.onnx.differential import expected, parse, random, typed_model

_TIES = np.random.default_rng(0).integers(0, 5, (3, 40)).astype(np.float32)
_ROWS = np.array([[2, 1], [1, 3], [2, 1], [1, 3], [1, 0]], np.float32)
_NAN = np.array([3, np.nan, -0.0, 3, 0.0, np.nan], np.float32)


def _check(text: str, feeds: Mapping[str, np.ndarray]) -> None:
    """Compiled code gives what onnxruntime gives, for models with several outputs."""
    model = parse(text)

    actual = compile(import_onnx(model))(*feeds.values())

    actual = actual if isinstance(actual, Sequence) else [actual]
    for mine, theirs in zip(actual, expected(model, feeds), strict=True):
        array = as_numpy(mine)
        assert array.dtype == theirs.dtype
        np.testing.assert_allclose(array, theirs, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("largest", [0, 1])
def test_long_axes_are_sorted_by_the_runtime(largest: int) -> None:
    text = f"""
        g (float[m, n] x, int64[1] k) => (float[m, p] v, int64[m, p] i) {{
            v, i = TopK <largest = {largest}> (x, k)
        }}"""
    _check(text, {"x": _TIES, "k": np.array([7])})


@pytest.mark.parametrize(
    ("attributes", "x"),
    [
        ("axis = 0", _ROWS),
        ("axis = -1, sorted = 0", _ROWS),
        ("sorted = 0", _ROWS),
        ("sorted = 1", _ROWS),
    ],
)
def test_unique(attributes: str, x: np.ndarray) -> None:
    shape = "a, b" if "axis" in attributes else "a"
    text = f"""
        g (float[m, n] x) => (float[{shape}] y, int64[c] f, int64[d] i, int64[e] k) {{
            y, f, i, k = Unique <{attributes}> (x)
        }}"""
    _check(text, {"x": x})


def test_nans_and_signed_zeros_are_unique() -> None:
    text = "g (float[n] x) => (float[m] y, int64[m] f) { y, f = Unique (x) }"

    y, first = compile(import_onnx(parse(text)))(_NAN)

    np.testing.assert_array_equal(as_numpy(y), [0, 3, np.nan])
    np.testing.assert_array_equal(as_numpy(first), [2, 0, 1])


def test_non_numpy_element_types_reach_the_runtime() -> None:
    text = "g (bfloat16[n] x) => (bfloat16[m] y) { y = Unique (x) }"
    x = np.array([2, 1, 2], ml_dtypes.bfloat16)

    (y,) = compile(parse(text).SerializeToString())(x)

    assert as_numpy(y).dtype == x.dtype
    np.testing.assert_array_equal(as_numpy(y), [1, 2])


@pytest.mark.parametrize("attributes", ["", "<axis = 1>", "<axis = -2>"])
def test_compress(attributes: str) -> None:
    shape = "a, b" if attributes else "a"
    text = f"""
        g (float[m, n] x, bool[k] c) => (float[{shape}] y) {{
            y = Compress {attributes} (x, c)
        }}"""
    _check(text, {"x": _ROWS, "c": np.array([False, True])})


def test_condition_longer_than_the_axis_is_rejected() -> None:
    text = "g (float[n] x, bool[k] c) => (float[m] y) { y = Compress (x, c) }"
    code = compile(import_onnx(parse(text)))

    with pytest.raises((RelaxError, ValueError), match=r"no more than 2 .* holds at 3"):
        code(np.ones(2, np.float32), np.array([True, False, False, True]))


@pytest.mark.parametrize("is_centre", [0, 1])
def test_non_max_suppression(is_centre: int) -> None:
    rng = np.random.default_rng(3)
    boxes = rng.uniform(0, 1, (2, 30, 4)).astype(np.float32)
    scores = rng.integers(0, 9, (2, 3, 30)).astype(np.float32)
    text = f"""
        g (float[n, b, 4] x, float[n, c, b] s) => (int64[m, 3] y) {{
            k = Constant <value = int64[1] {{5}}> ()
            o = Constant <value = float[1] {{0.3}}> ()
            t = Constant <value = float[1] {{2.0}}> ()
            y = NonMaxSuppression <center_point_box = {is_centre}> (x, s, k, o, t)
        }}"""
    _check(text, {"x": boxes, "s": scores})


@pytest.mark.slow
def test_transform_of_symbolic_length_is_compiled_once() -> None:
    model = parse("g (float[2, n, 1] x) => (float[2, m, 2] y) { y = DFT (x) }", 20)
    code = compile(import_onnx(model))
    for length in (5, 24):
        x = random(2, length, 1)
        (y,) = code(x)
        wanted = np.fft.fft(x[..., 0])
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, atol=2e-5)


def _numbers(body: str, opset: int = 22, **feeds: np.ndarray) -> np.ndarray:
    """The first result of random nodes, by the definition."""
    module = import_onnx(typed_model(body, opset, feeds))
    return reference.run(module, *feeds.values())[0]


def test_random_numbers_depend_on_seed_and_name() -> None:
    texts = [
        f"y = RandomUniform <shape = [500], low = 2.0, high = 4.0{seed}> ()"
        for seed in ("", ", seed = 1.0", ", seed = 1.0", ", seed = 2.0")
    ]
    unseeded, first, again, other = map(_numbers, texts)

    np.testing.assert_array_equal(first, again)
    assert (first >= 2).all()
    assert (first < 4).all()
    assert abs(first.mean() - 3) < 0.1  # 500 numbers: a deviation of 0.026
    for numbers in (unseeded, other):
        assert abs(np.corrcoef(first, numbers)[0, 1]) < 0.2


@pytest.mark.slow
def test_compiled_random_numbers_match_the_reference() -> None:
    text = "g (float[n, m] x) => (float[n, m] y) { y = RandomUniformLike (x) }"
    module = import_onnx(parse(text))
    x = np.zeros((31, 77), np.float32)
    (wanted,) = reference.run(module, x)

    for threads in (1, 3):
        (y,) = compile(module, threads=threads)(x)
        np.testing.assert_array_equal(y, wanted)


def test_normal_numbers_have_their_moments() -> None:
    body = "y = RandomNormalLike <mean = 5.0, scale = 2.0, seed = 3.0> (x)"
    y = _numbers(body, x=np.zeros((50, 40), np.float64))

    assert y.dtype == np.float64
    assert abs(y.mean() - 5) < 0.15  # 2000 numbers: a deviation of 0.045
    assert abs(y.std() - 2) < 0.15


def test_bernoulli_draws_ones_by_probability() -> None:
    x = np.repeat(np.array([0, 0.25, 1], np.float32), 400)
    y = _numbers("y = Bernoulli <dtype = 6, seed = 1.0> (x)", x=x).reshape(3, 400)

    assert y.dtype == np.int32
    assert (y[0] == 0).all()
    assert (y[2] == 1).all()
    assert abs(y[1].mean() - 0.25) < 0.07  # a deviation of 0.022


def test_multinomial_draws_columns_by_weight() -> None:
    x = np.log(np.array([[1, 3], [9, 1]], np.float32))
    y = _numbers("y = Multinomial <sample_size = 400, seed = 1.0> (x)", x=x)

    assert y.dtype == np.int32
    assert y.shape == (2, 400)
    np.testing.assert_allclose(y.mean(1), [0.75, 0.1], atol=0.07)


def test_training_drops_elements_and_scales_the_others() -> None:
    body = (
        "t = Constant <value = bool {1}> () r = Constant <value = float {0.25}> () "
        "y, m = Dropout <seed = 5> (x, r, t)"
    )
    x = random(30, 40)
    y = _numbers(body, x=x)

    kept = y != 0
    np.testing.assert_allclose(y[kept], x[kept] / np.float32(0.75), rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 0.05  # 1200 elements: a deviation of 0.0125
