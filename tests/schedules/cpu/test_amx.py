"""Numerics of GEMM and convolution on AMX tiles, with emulated instructions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.passes.schedule.rules import CONFIGURATION
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples
from tests.schedules.cpu.amx import (
    BYTES,
    TARGET,
    count_tiles,
    drawn_bytes,
    matmul_of_bytes,
    run_with_tiles,
)
from tests.schedules.low_precision import (
    assert_close,
    convolved,
    drawn,
    matmul,
    rounded,
)

pytestmark = pytest.mark.slow  # each compiles models

SHAPES = [
    pytest.param(64, 64, 64, id="tiles"),
    pytest.param(
        40, 96, 50, id="a smaller tail tile of rows, a partial tile of columns"
    ),
    pytest.param(37, 40, 16, id="an overlapping tail tile, a short K step"),
    pytest.param(5, 32, 7, id="fewer rows and columns than a tile"),
    pytest.param(33, 24, 70, id="a tail of one row"),
]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("is_constant", [True, False])
def test_operands_are_rounded_once_and_sums_are_exact(
    m: int, k: int, n: int, is_constant: bool
) -> None:
    x, w = drawn(m, k), drawn(k, n)
    module = matmul(m, k, n, w if is_constant else None)

    (y,) = run_with_tiles(module, *([x] if is_constant else [x, w]), precision="bf16")

    assert_close(y, rounded(x) @ rounded(w))


@pytest.mark.parametrize("a", BYTES)
@pytest.mark.parametrize("b", BYTES)
@pytest.mark.parametrize(("m", "k", "n"), [(40, 64, 48), (5, 20, 9), (18, 192, 33)])
def test_bytes_of_all_signedness_are_exact(
    m: int, k: int, n: int, a: str, b: str
) -> None:
    x, y = drawn_bytes(a, m, k), drawn_bytes(b, k, n)

    (z,) = run_with_tiles(matmul_of_bytes(m, k, n, a, b), x, y)

    np.testing.assert_array_equal(z, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rows", [1, 5, 16, 31, 37, 70])
@pytest.mark.parametrize("is_constant", [True, False])
def test_dynamic_m(rows: int, is_constant: bool) -> None:
    x, w = drawn(rows, 40), drawn(40, 50)
    module = matmul("n", 40, 50, w if is_constant else None)

    (y,) = run_with_tiles(module, *([x] if is_constant else [x, w]), precision="bf16")

    assert_close(y, rounded(x) @ rounded(w))


def convolution(
    channels: int, out: int, side: int | str, size: int, stride: int
) -> tuple[str, np.ndarray]:
    """A model of an NHWC convolution, as AMX needs it, and its weights."""
    pad = size // 2
    text = f"""g (float[1, {side}, {side}, {channels}] x, float[{out}, {channels}, {size}, {size}] w)
        => (float[a, b, c, d] y) {{
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        r = Relu (t)
        y = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}]> (r, w) }}"""
    return text, drawn(out, channels, size, size)


def positive(x: np.ndarray) -> np.ndarray:
    """The input of the convolution, NCHW."""
    return rounded(np.maximum(x, 0)).transpose(0, 3, 1, 2)


def check_convolution(
    channels: int, out: int, side: int, size: int, stride: int
) -> None:
    text, w = convolution(channels, out, side, size, stride)
    x = drawn(1, side, side, channels)
    module = import_onnx(parse(text, opset=17), values={"w": w})

    (y,) = run_with_tiles(module, x, precision="bf16")

    assert_close(y, convolved(positive(x), rounded(w), stride))


@pytest.mark.parametrize(
    ("channels", "out", "side", "size", "stride"),
    [
        pytest.param(32, 40, 10, 1, 1, id="1x1"),
        pytest.param(16, 20, 9, 3, 1, id="3x3"),
        pytest.param(32, 33, 20, 3, 1, id="rows longer than a tile"),
        pytest.param(24, 16, 11, 3, 2, id="every second pixel"),
        pytest.param(32, 16, 12, 1, 2, id="every second pixel, 1x1"),
    ],
)
def test_convolutions(
    channels: int, out: int, side: int, size: int, stride: int
) -> None:
    check_convolution(channels, out, side, size, stride)


@pytest.mark.parametrize("sides", [(7, 7), (16, 16), (20, 37)])
def test_convolutions_of_dynamic_image_sizes(sides: tuple[int, int]) -> None:
    text, w = convolution(16, 20, "s", 3, 1)
    text = text.replace("s, s, ", "s, t, ")
    x = drawn(1, *sides, 16)
    module = import_onnx(parse(text, opset=17), values={"w": w})

    (y,) = run_with_tiles(module, x, precision="bf16")

    assert_close(y, convolved(positive(x), rounded(w)))


@pytest.mark.parametrize("weight", BYTES)
def test_convolutions_of_bytes_are_exact(weight: str) -> None:
    text = f"""g (uint8[1, 16, 9, 9] x, {weight}[20, 16, 3, 3] w) => (int32[a, b, c, d] y) {{
        zero = Constant <value = uint8 {{7}}> ()
        y = ConvInteger <pads = [1, 1, 1, 1]> (x, w, zero) }}"""
    x, w = drawn_bytes("uint8", 1, 16, 9, 9), drawn_bytes(weight, 20, 16, 3, 3)

    (y,) = run_with_tiles(import_onnx(parse(text, opset=17), values={"w": w}), x)

    expected = convolved(x.astype(np.int32) - 7, w.astype(np.int32))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_epilogues(threads: int) -> None:
    text = """g (float[3, 45, 64] x, float[64, 50] w, float[50] b, float[3, 45, 50] r)
        => (float[3, 45, 50] y) {
        p = MatMul (x, w)
        q = Add (p, b)
        t = Relu (q)
        y = Add (t, r) }"""
    x, w, b, r = drawn(3, 45, 64), drawn(64, 50), drawn(50), drawn(3, 45, 50)
    module = import_onnx(parse(text, opset=17), values={"w": w, "b": b})

    (y,) = run_with_tiles(module, x, r, precision="bf16", threads=threads)

    assert_close(y, np.maximum(rounded(x) @ rounded(w) + b, 0) + r)


def test_results_do_not_depend_on_threads() -> None:
    x, w = drawn(200, 128), drawn(128, 300)
    module = matmul(200, 128, 300, w)

    one, two = (
        run_with_tiles(module, x, precision="bf16", threads=n)[0] for n in (1, 2)
    )

    np.testing.assert_array_equal(one, two)


@examples(6)
@given(
    st.tuples(st.integers(5, 70), st.integers(2, 20), st.integers(1, 70)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (3,)]),
)
def test_random_matmuls(
    sizes: tuple[int, int, int],
    is_transposed: bool,
    is_constant: bool,
    batch: tuple[int, ...],
) -> None:
    m, k, n = sizes
    k *= 8  # four words per tile row
    given_ = (*batch, n, k) if is_transposed else (*batch, k, n)
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    turn = (
        f"t = Transpose <perm = {order}> (w)" if is_transposed else "t = Identity (w)"
    )
    text = f"""g (float{[*batch, m, k]} x, float{list(given_)} w)
        => (float{[*batch, m, n]} y) {{ {turn}
        y = MatMul (x, t) }}"""
    x, w = drawn(*batch, m, k), drawn(*given_)
    values = {"w": w} if is_constant else {}
    module = import_onnx(parse(text, opset=17), values=values)

    (y,) = run_with_tiles(module, *([x] if is_constant else [x, w]), precision="bf16")

    columns = rounded(w).transpose(order) if is_transposed else rounded(w)
    assert_close(y, rounded(x) @ columns)


@examples(6)
@given(
    st.integers(8, 40),
    st.sampled_from([16, 24, 32, 48]),
    st.sampled_from([1, 3]),
    st.integers(1, 2),
    st.integers(5, 40),
)
def test_random_convolutions(
    out: int, channels: int, size: int, stride: int, side: int
) -> None:
    check_convolution(channels, out, side, size, stride)


def test_subnormal_numbers_are_flushed_to_zero() -> None:
    x, w = np.full((16, 32), 1e-39, np.float32), np.ones((32, 20), np.float32)

    (y,) = run_with_tiles(matmul(16, 32, 20, w), x, precision="bf16")

    np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize("m", [16, 23])
def test_special_numbers_stay_in_their_rows(m: int) -> None:
    x, w = drawn(m, 40), drawn(40, 20)
    x[0, 3], x[1, 5], x[m - 1, 7] = np.nan, np.inf, 3e38

    (y,) = run_with_tiles(matmul(m, 40, 20, w), x, precision="bf16")

    with np.errstate(invalid="ignore", over="ignore"):
        expected = rounded(x) @ rounded(w)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(expected))
    assert_close(y[2 : m - 1], expected[2 : m - 1])


@pytest.mark.parametrize("is_constant", [True, False])
def test_every_configuration_computes_the_same(is_constant: bool) -> None:
    x, w = drawn(40, 64), drawn(64, 50)
    module = matmul(40, 64, 50, w if is_constant else None)
    arrays = [x] if is_constant else [x, w]
    (expected,) = run_with_tiles(module, *arrays, precision="bf16")
    texts = [
        f"Gemm{{rows={rows}, vectors={vectors}}}"
        for rows in (32, 16)
        for vectors in ([2] if is_constant else [2, 1])
    ]

    for text in texts:
        (y,) = run_with_tiles(configured(module, text), *arrays)
        np.testing.assert_array_equal(y, expected)


def configured(module: IRModule, text: str) -> IRModule:
    """A module whose matmuls have the configuration ``text``."""
    planned = lower(module, to="planned", target=TARGET, precision="bf16")
    for function in planned.func_ops():
        if function.name.value.startswith("matmul"):
            with planned.context:
                function.attributes[CONFIGURATION] = ir.StringAttr.get(text)
    return planned


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        pytest.param(3, 64, 64, id="few rows"),
        pytest.param(40, 33, 64, id="odd K"),
        pytest.param(40, 62, 64, id="no K step of at least a quarter of a tile"),
        pytest.param(40, "k", 64, id="dynamic K"),
    ],
)
def test_unsuitable_sizes_do_not_use_amx(m: int, k: int | str, n: int) -> None:
    for w in (None, drawn(k, n)) if isinstance(k, int) else (None,):
        module = matmul(m, k, n, w)
        loops = lower(module, to="loops", target="cpu:sapphirerapids", precision="bf16")
        assert count_tiles(loops) == 0


def test_few_rows_of_bytes_are_summed_by_vectors() -> None:
    loops = lower(
        matmul_of_bytes(3, 64, 64, "uint8", "int8"),
        to="loops",
        target="cpu:sapphirerapids",
    )

    assert count_tiles(loops) == 0
    assert "vpdpbusd" in str(loops)


def test_convolutions_are_not_computed_at_points() -> None:
    text = """g (float[1, 32, 64, 64] x, float[32, 32, 3, 3] w) => (float[a, b, c, d] y) {
        r = Conv <pads = [1, 1, 1, 1]> (x, w)
        s = Relu (r)
        y = Conv <pads = [1, 1, 1, 1]> (s, w) }"""
    module = import_onnx(parse(text, opset=17), values={"w": drawn(32, 32, 3, 3)})

    for precision, is_in_tiles in (("bf16", True), ("f32", False)):
        loops = lower(
            module, to="loops", target="cpu:sapphirerapids", precision=precision
        )
        assert bool(count_tiles(loops)) == is_in_tiles
        assert ("Winograd" in str(loops)) != is_in_tiles
