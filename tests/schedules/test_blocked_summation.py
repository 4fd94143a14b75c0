"""Blocked summation: the error of a sum does not grow with its length."""

import numpy as np
import pytest

from relax_mlir import compile, import_onnx
from relax_mlir.runtime.executable import Executable
from tests.frontends.onnx.differential import parse

# Relative bound; all terms are positive, so that rounding errors do not cancel.
_BOUND = 5e-7
_LENGTH = 1 << 20

pytestmark = pytest.mark.slow


def compiled(text: str, target: str = "cpu", **constants: np.ndarray) -> Executable:
    module = import_onnx(parse(text, opset=18), values=constants)
    made = compile(module, target=target, cache=False)
    assert isinstance(made, Executable)
    return made


def positive(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def assert_exact(actual: np.ndarray, expected: np.ndarray, bound: float) -> None:
    error = np.abs(actual.astype(np.float64) - expected) / np.abs(expected)
    assert error.max() <= bound


def exact(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pytest.mark.parametrize("shape", ["float[1, 1048576] x", "float[m, n] x"])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_sum_of_a_row(shape: str, target: str) -> None:
    text = f"g ({shape}) => (float[k, 1] y) {{ y = ReduceSum <keepdims = 1> (x, a) }}"
    text = text.replace(") =>", ", int64[1] a) =>")
    x = positive(1, _LENGTH)

    (y,) = compiled(text, target, a=np.array([1]))(x)

    assert_exact(y, exact(x).sum(1, keepdims=True), _BOUND)


def test_sum_of_columns() -> None:
    text = f"g (float[{_LENGTH}, 8] x, int64[1] a) => (float[1, 8] y) {{ y = ReduceSum (x, a) }}"
    x = positive(_LENGTH, 8)

    (y,) = compiled(text, a=np.array([0]))(x)

    assert_exact(y, exact(x).sum(0, keepdims=True), _BOUND)


def test_sum_over_several_axes() -> None:
    text = """g (float[2, 64, 64, 64] x, int64[3] a) => (float[2, 1, 1, 1] y) {
        y = ReduceMean (x, a) }"""
    x = positive(2, 64, 64, 64)

    (y,) = compiled(text, a=np.array([1, 2, 3]))(x)

    assert_exact(y, exact(x).mean((1, 2, 3), keepdims=True), _BOUND)


def test_norm() -> None:
    text = f"g (float[1, {_LENGTH}] x, int64[1] a) => (float[1, 1] y) {{ y = ReduceL2 (x, a) }}"
    x = positive(1, _LENGTH)

    (y,) = compiled(text, a=np.array([1]))(x)

    expected = np.sqrt((exact(x) ** 2).sum(1, keepdims=True))
    assert_exact(y, expected, _BOUND)


MATMULS = [
    pytest.param(1, 1 << 16, 1, id="dot"),
    pytest.param(1, 1 << 16, 16, id="gemv"),
    pytest.param(3, 5000, 40, id="blocks that do not divide the sum"),
    pytest.param(7, 1 << 14, 40, id="gemm"),
]


@pytest.mark.parametrize(("m", "k", "n"), MATMULS)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_matmul_of_large_k(m: int, k: int, n: int, is_dynamic: bool) -> None:
    sizes = ("m", "k", "n") if is_dynamic else (m, k, n)
    text = "g (float[{0}, {1}] x, float[{1}, {2}] w) => (float[{0}, {2}] y) {{ y = MatMul (x, w) }}"
    x, w = positive(m, k), positive(k, n)

    (y,) = compiled(text.format(*sizes))(x, w)

    # Blocks have at least 512 terms.
    assert_exact(y, exact(x) @ exact(w), 1.5e-6)
