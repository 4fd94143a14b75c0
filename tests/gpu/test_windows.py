"""Implicit-GEMM convolutions: windows are read in place, without an im2col copy."""

import ml_dtypes
import numpy as np
import pytest

from relax_mlir import IRModule, import_onnx
from tests.frontends.onnx.differential import parse
from tests.gpu.test_gemm import BOUNDS, run
from tests.schedules.low_precision import convolved, drawn, rounded


def windows(
    image: tuple[int, ...],
    weights: tuple[int, ...],
    stride: int,
    pad: int,
    kind: str,
) -> IRModule:
    """A channels-last convolution."""
    sizes = zip(image[1:3], weights[1:3], strict=True)
    places = ((n + 2 * pad - k) // stride + 1 for n, k in sizes)
    out = [image[0], *places, weights[0]]
    x, w, y = ("x".join(map(str, shape)) for shape in (image, weights, out))
    types = f"tensor<{x}x{kind}>, tensor<{w}x{kind}>", f"tensor<{y}xf32>"
    return IRModule.parse(f"""
    func.func @main(%x: tensor<{x}x{kind}>, %w: tensor<{w}x{kind}>) -> {types[1]} {{
      %p = "relax.nn_conv2d"(%x, %w) {{
        data_layout = "NHWC", kernel_layout = "OHWI", out_layout = "NHWC",
        dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: {pad}, {pad}, {pad}, {pad}>,
        strides = array<i64: {stride}, {stride}>, out_dtype = f32
      }} : ({types[0]}) -> {types[1]}
      %y = "relax.nn_relu"(%p) : ({types[1]}) -> {types[1]}
      return %y : {types[1]}
    }}""")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("image", "size", "stride"),
    [((14, 14), 3, 1), ((9, 13), 3, 2), ((28, 28), 1, 2), ((8, 8), 5, 1)],
)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("is_padded", [False, True])
def test_wgmma_convolutions(
    is_padded: bool, kind: str, image: tuple[int, int], size: int, stride: int
) -> None:
    """A tile is a TMA box of images, rows and columns, with element strides.

    Out-of-bounds elements are 0: no padding is needed.
    """
    numbers = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[kind]
    x, w = (
        drawn(3, *image, 64).astype(numbers),
        drawn(72, size, size, 64).astype(numbers),
    )
    pad = size // 2
    before = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    given = x if is_padded else np.pad(x, before)

    precision = "tf32" if kind == "f32" else "f32"
    module = windows(given.shape, w.shape, stride, pad * is_padded, kind)
    y, rules = run(module, given, w, precision=precision)

    assert rules == {"GemmWgmma"}
    images, weights = (a.astype(np.float64).transpose(0, 3, 1, 2) for a in (x, w))
    sums = convolved(images, weights, stride)
    bound = (1e-3 if kind == "f32" else 1e-5) * float(np.abs(sums).max())
    expected = np.maximum(sums.transpose(0, 2, 3, 1), 0)
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)


@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize(("channels", "stride"), [(8, 1), (20, 2), (3, 1)])
def test_threads_read_no_padded_copy(channels: int, stride: int, kind: str) -> None:
    numbers = {"f16": np.float16, "f32": np.float32}[kind]
    x = drawn(2, 9, 7, channels).astype(numbers)
    w = drawn(24, 3, 3, channels).astype(numbers)

    y, rules = run(windows(x.shape, w.shape, stride, 1, kind), x, w)

    assert rules == {"GemmMmaSync" if kind == "f16" else "GemmSimt"}
    images, weights = (a.astype(np.float64).transpose(0, 3, 1, 2) for a in (x, w))
    sums = convolved(images, weights, stride)
    bound = 1e-5 * float(np.abs(sums).max())
    expected = np.maximum(sums.transpose(0, 2, 3, 1), 0)
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)


@pytest.mark.parametrize("precision", ["f16", "tf32"])
@pytest.mark.parametrize("width", [4, 8])
def test_unaligned_windows(precision: str, width: int) -> None:
    """Window rows are contiguous, but not 16-byte aligned."""
    text = f"""g (float[2, 16, 64] x, float[32, 16, {width}] w) => (float[a, b, c] y) {{
        y = Conv (x, w) }}"""
    x, w = drawn(2, 16, 64), drawn(32, 16, width)

    y, _ = run(import_onnx(parse(text, opset=17)), x, w, precision=precision)

    if precision == "f16":
        x, w = rounded(x, "f16"), rounded(w, "f16")
    windows = np.lib.stride_tricks.sliding_window_view(x, width, axis=2)
    expected = np.einsum("ncwk,ock->now", windows, w)
    bound = BOUNDS.get(precision, 1e-5) * float(np.abs(expected).max())
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)
