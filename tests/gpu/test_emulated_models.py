"""Compiled models in the emulator: inputs, launch plans, host functions."""

from dataclasses import replace

import numpy as np
import pytest

from relax_mlir import import_onnx
from relax_mlir.errors import EmulationError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.frontends.onnx.differential import parse
from tests.gpu.emulated import compiled
from tests.gpu.stub import TARGET
from tests.ptx_emulator import emulate
from tests.schedules.low_precision import drawn


def model(text: str, precision: str = "f32") -> CudaExecutable:
    module: IRModule = import_onnx(parse(text, opset=17))
    return compiled(module, TARGET, precision=precision)


def test_sizes_are_those_of_the_call() -> None:
    made = model(
        "g (float[n, 6] x, float[m, 6] z) => (float[k, 6] y) "
        "{ y = Concat <axis = 0> (x, z) }"
    )
    for n, m in ((3, 5), (0, 4), (70, 1)):
        x, z = drawn(n, 6), drawn(m, 6)
        (y,) = emulate(made, x, z)
        np.testing.assert_array_equal(y, np.concatenate([x, z]))


def test_inputs_are_checked() -> None:
    made = model("g (float[n, 6] x) => (float[n, 6] y) { y = Abs (x) }")
    with pytest.raises(ValueError, match="expected 1 inputs, got 2"):
        emulate(made, drawn(2, 6), drawn(2, 6))
    with pytest.raises(ValueError, match=r"input 0 \(`x`\): expected float32, got f"):
        emulate(made, drawn(2, 6).astype(np.float64))
    with pytest.raises(ValueError, match="expected 6, got 7"):
        emulate(made, drawn(2, 7))


def test_inputs_are_not_written() -> None:
    made = model("g (float[50, 6] x) => (float[50, 6] y) { a = Abs (x) y = Exp (a) }")
    x = drawn(50, 6)
    before = x.copy()
    (y,) = emulate(made, x[:, ::-1])
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(y, np.exp(np.abs(x[:, ::-1])), rtol=1e-6)


def test_functions_on_the_host_take_part() -> None:
    made = model(
        """g (float[5, 33] x) => (float[5, 4] y, int64[5, 4] i) {
        k = Constant <value_ints = [4]> () a = Abs (x) y, i = TopK (a, k) }"""
    )
    x = drawn(5, 33)
    y, i = emulate(made, x)
    expected = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(i, expected)
    np.testing.assert_array_equal(y, np.take_along_axis(np.abs(x), expected, 1))


def test_subsets_of_blocks() -> None:
    made = model("g (float[200000] x) => (float[200000] y) { y = Neg (x) }")
    x = drawn(200000)
    (y,) = emulate(made, x, max_blocks=3)
    is_there = np.isfinite(y)
    assert 0 < is_there.mean() < 0.5
    assert is_there[0]
    assert is_there[-1]
    np.testing.assert_array_equal(y[is_there], -x[is_there])


def test_results_do_not_depend_on_the_schedule() -> None:
    """A pipelined wgmma GEMM has the same result under any schedule."""
    made = model(
        "g (float[130, 200] x, float[200, 136] w) => (float[130, 136] y) "
        "{ y = MatMul (x, w) }",
        "f16",
    )
    assert "GemmWgmma" in [kernel.rule for kernel in made.kernels]
    x, w = drawn(130, 200), drawn(200, 136)
    results = [emulate(made, x, w, seed=seed)[0] for seed in range(3)]
    assert len({y.tobytes() for y in results}) == 1
    right = x.astype(np.float64) @ w
    np.testing.assert_allclose(results[0], right, atol=2e-3 * np.abs(right).max())


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        (b"ex2.approx", b"ex3.approx", "unsupported instruction"),
        (b"st.global.v4.b32", b"st.global.v4.b33", "unsupported: `.b33`"),
        (b"st.global", b"st.shared", "memory `shared`|not a multiple"),
    ],
)
def test_errors_name_the_kernel(right: bytes, wrong: bytes, reason: str) -> None:
    made = model("g (float[4096] x) => (float[4096] y) { y = Exp (x) }")
    (text,) = made.contents.ptx
    assert right in text
    damaged = replace(made.contents, ptx=(text.replace(right, wrong),))

    with pytest.raises(EmulationError, match=rf"kernel `k_\w+`: `{wrong[:9].decode()}"):
        emulate(CudaExecutable(damaged), drawn(4096))
    with pytest.raises(EmulationError, match=reason):
        emulate(CudaExecutable(damaged), drawn(4096))
