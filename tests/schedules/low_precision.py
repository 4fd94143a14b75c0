"""Models, inputs and expected results of low-precision matmuls and convolutions."""

import ml_dtypes
import numpy as np

from relax_mlir import IRModule, import_onnx
from tests.frontends.onnx.differential import parse

__all__ = ["assert_close", "convolved", "drawn", "matmul", "rounded"]


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape).astype(np.float32)


def rounded(array: np.ndarray, kind: str = "bf16") -> np.ndarray:
    narrow = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[kind]
    return array.astype(narrow).astype(np.float32)


def matmul(m: int | str, k: int | str, n: int, w: np.ndarray | None = None) -> IRModule:
    text = f"g (float[{m}, {k}] x, float[{k}, {n}] w) => (float[{m}, {n}] y) {{ y = MatMul (x, w) }}"
    return import_onnx(parse(text, opset=17), values={} if w is None else {"w": w})


def convolved(x: np.ndarray, w: np.ndarray, stride: int = 1) -> np.ndarray:
    """The expected result of a convolution with "same" padding."""
    pad = w.shape[-1] // 2
    wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare up to the summation order in f32."""
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(actual, expected, atol=1e-5 * scale, rtol=0)
