"""``compile(..., precision=...)``: bf16 operands, f16 weights, f32 accumulation."""

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir import compile, import_onnx, load, lower
from relax_mlir.compiler.driver import target_of
from relax_mlir.errors import RelaxError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.executable import Executable
from relax_mlir.targets import Target
from relax_mlir.tvm.relax.vm import JITModel
from tests.frontends.onnx.differential import parse
from tests.schedules.low_precision import (
    assert_close,
    convolved,
    drawn,
    matmul,
    rounded,
)

_HOST = target_of("cpu")
_BF16 = ml_dtypes.bfloat16

needs_dots = pytest.mark.skipif(not _HOST.unit.bf16_dot, reason="no bf16 dot products")
_few = settings(max_examples=8)


SHAPES = [
    pytest.param(40, 64, 48, id="tiles"),
    pytest.param(1, 33, 70, id="one row, odd K"),
    pytest.param(5, 17, 9, id="a partial vector of columns"),
    pytest.param(67, 130, 130, id="packed panels"),
]


@needs_dots
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("is_constant", [True, False])
def test_operands_are_rounded_once_and_sums_are_exact(
    m: int, k: int, n: int, is_constant: bool
) -> None:
    x, w = drawn(m, k), drawn(k, n)
    module = matmul(m, k, n, w if is_constant else None)

    made = compile(module, precision="bf16", cache=False)
    (y,) = made(*([x] if is_constant else [x, w]))

    is_rounded = is_constant or m > 4  # of what is computed, numbers are read as often
    assert_close(y, rounded(x) @ rounded(w) if is_rounded else x @ w)


@pytest.mark.slow
@needs_dots
@settings(max_examples=40)
@given(st.tuples(*[st.integers(1, 80)] * 3), st.booleans(), st.sampled_from([(), (3,)]))
def test_random_matmuls(
    sizes: tuple[int, int, int], is_transposed: bool, batch: tuple[int, ...]
) -> None:
    m, k, n = sizes
    m, k = m + 4, k + 15  # fewer rows, and shorter sums, are not rounded
    given_ = (*batch, n, k) if is_transposed else (*batch, k, n)
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    turn = (
        f"t = Transpose <perm = {order}> (w)" if is_transposed else "t = Identity (w)"
    )
    text = f"""g (float{[*batch, m, k]} x, float{list(given_)} w)
        => (float{[*batch, m, n]} y) {{ {turn}
        y = MatMul (x, t) }}"""
    x, w = drawn(*batch, m, k), drawn(*given_)

    (y,) = compile(import_onnx(parse(text, opset=17)), precision="bf16", cache=False)(
        x, w
    )

    columns = rounded(w).transpose(order) if is_transposed else rounded(w)
    assert_close(y, rounded(x) @ columns)


@pytest.mark.slow
@needs_dots
@_few
@given(
    st.integers(1, 40),
    st.integers(16, 40),
    st.sampled_from([1, 3]),
    st.integers(1, 2),
    st.integers(5, 20),
)
def test_convolutions(
    out: int, channels: int, size: int, stride: int, side: int
) -> None:
    pad = size // 2
    text = f"""g (float[1, {channels}, {side}, {side}] x, float[{out}, {channels}, {size}, {size}] w)
        => (float[a, b, c, d] y) {{
        r = Relu (x)
        y = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}]> (r, w) }}"""
    x, w = drawn(1, channels, side, side), drawn(out, channels, size, size)
    module = import_onnx(parse(text, opset=17), values={"w": w})

    (y,) = compile(module, precision="bf16", cache=False)(x)

    assert_close(y, convolved(rounded(np.maximum(x, 0)), rounded(w), stride))


@needs_dots
def test_winograd_reads_and_writes_bf16() -> None:
    text = """g (float[1, 32, 64, 64] x) => (float[a, b, c, d] y) {
        r = Relu (x)
        s = Conv <pads = [1, 1, 1, 1]> (r, w)
        t = Relu (s)
        y = Conv <pads = [1, 1, 1, 1]> (t, w) }"""
    text = text.replace("x) =>", "x, float[32, 32, 3, 3] w) =>")
    x, w = drawn(1, 32, 64, 64), drawn(32, 32, 3, 3) / 17
    module = import_onnx(parse(text, opset=17), values={"w": w})

    made = compile(module, precision="bf16", cache=False)
    (y,) = made(x)

    assert isinstance(made, Executable)
    assert "Winograd" in [k.rule for k in made.kernels]
    first = rounded(np.maximum(convolved(rounded(np.maximum(x, 0)), rounded(w)), 0))
    scale = float(np.abs(y).max())
    # Ties between two roundings may go either way.
    expected = convolved(first, rounded(w))
    np.testing.assert_allclose(y, expected, atol=4e-3 * scale, rtol=0)
    assert float(np.abs(y - expected).mean()) < 1e-4 * scale


def test_weights_of_f16_are_multiplied_in_f32() -> None:
    x, w = drawn(6, 70), drawn(70, 50)

    (y,) = compile(matmul(6, 70, 50, w), precision="f16", cache=False)(x)

    assert_close(y, x @ rounded(w, "f16"))


def test_cpus_without_bf16_dot_products_round_weights_only() -> None:
    x, w = drawn(6, 70), drawn(70, 50)
    target = replace(_HOST, unit=replace(_HOST.unit, bf16_dot=False, amx=False))

    (y,) = compile(matmul(6, 70, 50, w), target, precision="bf16", cache=False)(x)

    assert_close(y, x @ rounded(w))


def test_weights_that_f16_cannot_hold_stay_wide() -> None:
    w = np.eye(16, dtype=np.float32)
    w[0, 0] = 1e5

    made = compile(matmul(2, 16, 16, w), precision="f16", cache=False)
    (y,) = made(np.repeat(np.array([[1.0], [0.0]], np.float32), 16, axis=1))

    np.testing.assert_array_equal(y[:, 0], [1e5, 0])


@needs_dots
def test_dot_products_flush_subnormal_inputs() -> None:
    x, w = np.full((4, 32), 1e-39, np.float32), np.ones((32, 20), np.float32)

    (y,) = compile(matmul(4, 32, 20, w), precision="bf16", cache=False)(x)

    np.testing.assert_array_equal(y, np.zeros_like(y))


@needs_dots
def test_special_values() -> None:
    x, w = drawn(4, 32), drawn(32, 20)
    x[0, 3], x[1, 5], x[2, 7] = np.nan, np.inf, 3e38

    (y,) = compile(matmul(4, 32, 20, w), precision="bf16", cache=False)(x)

    with np.errstate(invalid="ignore", over="ignore"):
        expected = rounded(x) @ rounded(w)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(expected))
    assert_close(y[3], expected[3])


def test_f32_is_the_default_and_changes_nothing() -> None:
    module = matmul(8, 64, 48)
    assert str(lower(module)) == str(lower(module, precision="f32"))
    assert "bf16" not in str(lower(module, to="tir"))


@pytest.mark.parametrize(
    ("target", "dots"),
    [("cpu:znver5", True), ("cpu:znver3", False), ("cpu:neoverse-v1", False)],
)
def test_machines(target: str, dots: bool) -> None:
    made = target_of(target)
    assert isinstance(made, Target)
    assert made.unit.bf16_dot == dots
    text = str(lower(matmul(32, 64, 48), target=made, precision="bf16"))
    assert ("dpbf16ps" in text) == dots


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(
        RelaxError, match="unknown precision `bf32`: expected one of f32"
    ):
        compile(matmul(2, 16, 3), precision="bf32")


def test_saved_models_keep_it(tmp_path: Path) -> None:
    x, w = drawn(6, 70), drawn(70, 50)
    made = compile(matmul(6, 70, 50, w), precision="f16", cache=False)
    made.save(tmp_path / "model.rxm")

    (y,) = load(tmp_path / "model.rxm")(x)

    np.testing.assert_array_equal(y, made(x)[0])
    plain = compile(matmul(6, 70, 50, w), cache=False)
    plain.save(tmp_path / "plain.rxm")
    sizes = [(tmp_path / n).stat().st_size for n in ("model.rxm", "plain.rxm")]
    assert sizes[1] - sizes[0] > 70 * 50


def test_stages_compiled_later_have_it() -> None:
    w = drawn(20, 30)
    text = """g (float[n, 20] x, int64[2] s, float[20, 30] w) => (float[a, b] y) {
        r = Reshape (x, s)
        y = MatMul (r, w) }"""
    module = import_onnx(parse(text, opset=17), values={"w": w})
    x = drawn(4, 20)

    made = compile(module, precision="f16", cache=False)
    (y,) = made(x, np.array([4, 20]))

    assert isinstance(made, JITModel)
    assert_close(y, x @ rounded(w, "f16"))


def test_f64_accumulation_does_not_use_dot_products(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<40x64xbf16>, %w: tensor<64x50xbf16>) -> tensor<40x50xf64> {
        %y = "relax.matmul"(%x, %w) {out_dtype = f64} : (tensor<40x64xbf16>, tensor<64x50xbf16>) -> tensor<40x50xf64>
        return %y : tensor<40x50xf64> }"""
    (tmp_path / "product.mlir").write_text(text)
    x, w = drawn(40, 64).astype(_BF16), drawn(64, 50).astype(_BF16)
    module = IRModule.load(tmp_path / "product.mlir")

    for target in (
        _HOST,
        replace(_HOST, unit=replace(_HOST.unit, vector_bits=512, amx=True)),
    ):
        (y,) = compile(module, target=target, cache=False)(x, w)
        exact = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(y, exact, atol=1e-12)
