"""GEMM and convolution of bytes on VNNI dot products."""

from dataclasses import replace

import numpy as np
import pytest

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler.driver import target_of
from tests.frontends.onnx.differential import parse

_HOST = target_of("cpu")
TYPES = {"uint8": np.uint8, "int8": np.int8}

pytestmark = pytest.mark.slow  # each compiles models


def matmul(m: int, k: int, n: int, a: str, b: str) -> IRModule:
    text = f"""g ({a}[{m}, {k}] a, {b}[{k}, {n}] b) => (int32[{m}, {n}] y) {{
        y = MatMulInteger (a, b) }}"""
    return import_onnx(parse(text, opset=17))


def drawn(kind: str, *shape: int) -> np.ndarray:
    """Random bytes, including the extreme values."""
    limits = np.iinfo(TYPES[kind])
    rng = np.random.default_rng(0)
    values = rng.integers(limits.min, limits.max, shape, TYPES[kind], endpoint=True)
    values[0] = limits.min
    values[-1] = limits.max
    return values


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("b", TYPES)
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        pytest.param(40, 64, 48, id="tiles"),
        pytest.param(1, 33, 70, id="one row, a K tail of one"),
        pytest.param(5, 14, 9, id="a K tail of two, a partial vector of columns"),
        pytest.param(67, 7, 130, id="packed panels, a K tail of three"),
        pytest.param(3, 2, 1, id="K below the VNNI factor"),
    ],
)
def test_sums_are_exact(m: int, k: int, n: int, a: str, b: str, bits: int) -> None:
    feature = {256: "+avxvnni", 512: "+avx512vnni"}[bits]
    if feature not in _HOST.features.split(","):
        pytest.skip(f"the machine lacks {feature}")
    target = replace(_HOST, unit=replace(_HOST.unit, vector_bits=bits, int8_dot=True))
    x, y = drawn(a, m, k), drawn(b, k, n)

    (z,) = compile(matmul(m, k, n, a, b), target)(x, y)

    np.testing.assert_array_equal(z, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize("weight", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [0, 128, 3])
@pytest.mark.parametrize("attributes", ["pads = [1, 1, 1, 1]", "strides = [2, 2]"])
def test_convolutions_are_exact(weight: str, zero: int, attributes: str) -> None:
    zero = zero if weight == "uint8" else min(zero, 127)
    text = f"""g (uint8[1, 5, 11, 9] x, {weight}[6, 5, 3, 3] w) => (int32[a, b, c, d] y) {{
        zx = Constant <value = uint8 {{7}}> ()
        zw = Constant <value = {weight} {{{zero}}}> ()
        y = ConvInteger <{attributes}> (x, w, zx, zw) }}"""
    x, w = drawn("uint8", 1, 5, 11, 9), drawn(weight, 6, 5, 3, 3)

    (y,) = compile(import_onnx(parse(text, opset=17)))(x, w)
    (known,) = compile(import_onnx(parse(text, opset=17), values={"w": w}))(x)

    wide, weights = x.astype(np.int32) - 7, w.astype(np.int32) - zero
    step = 2 if "strides" in attributes else 1
    if "pads" in attributes:
        wide = np.pad(wide, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows[:, :, ::step, ::step], weights)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(known, expected)


@pytest.mark.parametrize(
    ("cpu", "instruction"),
    [
        ("icelake-server", "llvm.x86.avx512.vpdpbusd.512"),
        ("alderlake", "llvm.x86.avx512.vpdpbusd.256"),
        ("skylake-avx512", None),
        ("znver3", None),
        ("neoverse-v1", None),
    ],
)
def test_cpus_with_vnni(cpu: str, instruction: str | None) -> None:
    text = str(
        lower(matmul(8, 64, 64, "uint8", "int8"), to="loops", target=f"cpu:{cpu}")
    )

    assert ("vpdpbusd" in text) == (instruction is not None)
    assert (instruction or "arith.muli") in text


def test_dynamic_k_does_not_use_vnni() -> None:
    text = """g (uint8[4, k] a, int8[k, 32] b) => (int32[4, 32] y) {
        y = MatMulInteger (a, b) }"""
    module = import_onnx(parse(text, opset=17))

    assert "vpdpbusd" not in str(lower(module, to="loops", target="cpu:icelake-server"))
