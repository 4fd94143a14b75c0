"""GEMM kernels of all rules and configurations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir
from onnx import numpy_helper

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.compiler.driver import target_of
from relax_mlir.passes.schedule.rules import CONFIGURATION
from relax_mlir.schedules.gpu import gemm_wgmma
from relax_mlir.targets.target import Target, TargetError
from tests.frontends.onnx.differential import parse
from tests.gpu.emulated import emulated, emulated_program
from tests.helpers.searching import examples
from tests.schedules.low_precision import convolved, drawn, rounded

_TARGET = target_of("cuda:sm_90")
BOUNDS = {"tf32": 1e-3}  # of the largest result, where operands are rounded when loaded


def layer(m: int | str, k: int, n: int, *, is_transposed: bool) -> IRModule:
    """A matmul with bias and ReLU; the right operand is K-major if it is transposed."""
    w, turn = (
        (f"{n}, {k}", "Transpose <perm = [1, 0]>")
        if is_transposed
        else (
            f"{k}, {n}",
            "Identity",
        )
    )
    text = f"""g (float[{m}, {k}] x, float[{w}] w, float[{n}] b) => (float[{m}, {n}] y) {{
        t = {turn} (w)
        p = MatMul (x, t)
        q = Add (p, b)
        y = Relu (q) }}"""
    return import_onnx(parse(text, opset=17))


def run(
    module: IRModule,
    *arrays: np.ndarray,
    precision: str = "f32",
    config: str = "",
    target: Target = _TARGET,
) -> tuple[np.ndarray, set[str]]:
    """Runs a module; returns its outputs and the rules of its kernels."""
    linalg = lower(module, target=target, to="linalg", precision=precision)
    if config:
        (product,) = (f for f in linalg.func_ops() if "matmul" in f.name.value)
        with linalg.context:
            product.attributes[CONFIGURATION] = ir.StringAttr.get(config)
    loops = lower(linalg, target=target, to="loops", precision=precision)
    (y,) = emulated(loops, *arrays, target=target)
    attributes = (f.attributes for f in loops.func_ops())
    rules = {ir.StringAttr(a["tir.rule"]).value for a in attributes if "tir.rule" in a}
    return y, rules


def check(
    sizes: tuple[int, int, int],
    is_transposed: bool,
    precision: str,
    config: str = "",
    rule: str = "",
) -> None:
    m, k, n = sizes
    x, w, b = drawn(m, k), drawn(*((n, k) if is_transposed else (k, n))), drawn(n)
    module = layer(m, k, n, is_transposed=is_transposed)

    y, rules = run(module, x, w, b, precision=precision, config=config)

    assert rule in {"", *rules}
    if precision not in ("f32", "tf32"):
        x, w = rounded(x, precision), rounded(w, precision)
    products = x.astype(np.float64) @ (w.T if is_transposed else w)
    expected = np.maximum(products + b, 0)
    bound = BOUNDS.get(precision, 1e-5) * max(1.0, float(expected.max()))
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("sizes", [(150, 72, 136), (131, 33, 127), (40, 16, 50)])
@pytest.mark.parametrize("rows", [128, 64, 32])
@pytest.mark.parametrize(
    ("precision", "rule"),
    [
        ("f32", "GemmSimt"),
        ("tf32", "GemmMmaSync"),
        ("f16", "GemmMmaSync"),
        ("bf16", "GemmMmaSync"),
    ],
)
def test_every_configuration(
    precision: str,
    rule: str,
    rows: int,
    sizes: tuple[int, int, int],
    is_transposed: bool,
) -> None:
    check(sizes, is_transposed, precision, f"{rule}{{rows={rows}}}", rule)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    ("precision", "sizes", "rule"),
    [
        ("f32", (40, 1050, 36), "GemmSimt"),
        ("f16", (70, 2104, 64), "GemmWgmma"),
        ("bf16", (40, 1043, 72), "GemmMmaSync"),
        ("f16", (20, 1040, 64), "GemmMmaSync"),
    ],
)
def test_split_k(
    precision: str, sizes: tuple[int, int, int], rule: str, is_transposed: bool
) -> None:
    m, k, n = sizes
    module = layer(m, k, n, is_transposed=is_transposed)
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    (product,) = (f for f in loops.func_ops() if "matmul" in f.name.value)

    assert str(product).count("gpu.launch") == 2
    check(sizes, is_transposed, precision, rule=rule)


def test_batched_split_k() -> None:
    text = """g (float[3, 20, 1040] x, float[3, 1040, 24] w) => (float[3, 20, 24] y) {
        y = MatMul (x, w) }"""
    x, w = drawn(3, 20, 1040), drawn(3, 1040, 24)

    y, _ = run(import_onnx(parse(text, opset=17)), x, w)

    np.testing.assert_allclose(y, x @ w, atol=1e-3, rtol=0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((300, 200, 264), "rows=128,columns=256"),
        ((131, 72, 128), "rows=128,columns=128"),
        ((1100, 64, 72), "rows=128,columns=128"),
        ((200, 136, 136), "rows=64,columns=128"),
        ((129, 520, 200), "rows=64,columns=64"),
        ((64, 16, 64), "rows=64,columns=64"),
    ],
)
@pytest.mark.parametrize("precision", ["f16", "bf16", "tf32"])
def test_wgmma(
    precision: str, sizes: tuple[int, int, int], tile: str, is_transposed: bool
) -> None:
    m, k, n = sizes
    if precision == "tf32":
        is_transposed = True
    check((m, k, n), is_transposed, precision, f"GemmWgmma{{{tile}}}", "GemmWgmma")


@pytest.mark.parametrize("blocks", [1, 3])
def test_persistent_tiles_in_bands(
    blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tile rows that do not fill a band of the swizzle, and fewer K tiles than stages."""
    small = gemm_wgmma.GemmWgmmaConfiguration(64, 64, 64, stages=2, blocks=blocks)
    monkeypatch.setattr(gemm_wgmma, "_CONFIGURATIONS", (small,))
    check((64 * 9, 272, 64 * 3), False, "f16", rule="GemmWgmma")


@pytest.mark.parametrize("rows", [1, 70, 300])
def test_wgmma_with_dynamic_rows(rows: int) -> None:
    x, w, b = (rounded(a, "f16") for a in (drawn(rows, 48), drawn(48, 72), drawn(72)))

    y, rules = run(layer("n", 48, 72, is_transposed=False), x, w, b, precision="f16")

    assert "GemmWgmma" in rules
    np.testing.assert_allclose(y, np.maximum(x @ w + b, 0), atol=1e-4, rtol=0)


def test_wgmma_with_batches_and_mn_major_rows() -> None:
    """``x`` is MN-major, and ``w`` is broadcast along some batch axes."""
    text = """g (float[2, 3, 40, 128] x, float[3, 40, 64] w) => (float[2, 3, 128, 64] y) {
        t = Transpose <perm = [0, 1, 3, 2]> (x)
        y = MatMul (t, w) }"""
    x, w = (rounded(a, "bf16") for a in (drawn(2, 3, 40, 128), drawn(3, 40, 64)))

    y, rules = run(import_onnx(parse(text, opset=17)), x, w, precision="bf16")

    assert "GemmWgmma" in rules
    np.testing.assert_allclose(y, x.swapaxes(2, 3) @ w, atol=1e-4, rtol=0)


def weighted(x: np.ndarray, w: np.ndarray) -> IRModule:
    """``x @ w + 1`` with constant weights."""
    text = f"""g (float[{x.shape[0]}, {x.shape[1]}] x, float[{w.shape[0]}, {w.shape[1]}] w)
        => (float[{x.shape[0]}, {w.shape[1]}] y) {{
        one = Constant <value_float = 1.0> ()
        p = MatMul (x, w)
        y = Add (p, one) }}"""
    model = parse(text, opset=17)
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return import_onnx(model)


@pytest.mark.parametrize(("rows", "rule"), [(70, "GemmWgmma"), (5, "GemmSimt")])
def test_fp8_operands(rows: int, rule: str) -> None:
    x, w = drawn(rows, 272), drawn(272, 96)
    x[3], x[4], w[:, 7] = 0, x[4] * 1e4, 0

    y, rules = run(weighted(x, w), x, precision="f8")

    assert rule in rules
    expected = x.astype(np.float64) @ w + 1
    # A worst-case bound, as each operand has an error of at most 1/16; and a typical one.
    assert (np.abs(y - expected) <= 0.13 * (np.abs(x) @ np.abs(w)) + 1e-6).all()
    error = np.linalg.norm(y - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert error.max() < 5e-2
    np.testing.assert_array_equal(y[3], 1)
    np.testing.assert_array_equal(y[:, 7], 1)


def test_fp8_needs_hopper() -> None:
    with pytest.raises(TargetError, match=r"expected `cuda:sm_90`, got `cuda:sm_80`"):
        lower(
            layer(64, 64, 64, is_transposed=False), target="cuda:sm_80", precision="f8"
        )


@examples(8)
@given(
    st.tuples(st.integers(1, 150), st.integers(1, 90), st.integers(1, 150)),
    st.booleans(),
    st.sampled_from(["f32", "tf32", "f16", "bf16"]),
)
def test_many_sizes(
    sizes: tuple[int, int, int], is_transposed: bool, precision: str
) -> None:
    m, k, n = sizes
    if k < 16:
        precision = "f32"  # small K is not reduced in precision
    check((m, k, n), is_transposed, precision)


_EINSUMS = {
    "a batch axis between K and N": (
        "bhqk,bkhd->bhqd",
        (2, 3, 64, 64),
        (2, 64, 3, 64),
    ),
    "both operands MN-major": ("khq,khd->hqd", (200, 3, 264), (200, 3, 80)),
    "N of two axes": ("oc,hcw->ohw", (40, 528), (4, 528, 12)),
    "N with a unit axis": ("oc,chw->ohw", (64, 528), (528, 72, 1)),
    "N with a unit axis in between": ("oc,hwc->ohw", (200, 528), (40, 1, 528)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", _EINSUMS)
@pytest.mark.parametrize("precision", ["f32", "tf32", "f16"])
def test_axes_in_many_orders(precision: str, name: str) -> None:
    equation, *shapes = _EINSUMS[name]
    kind, narrow = ("float16", np.float16) if precision == "f16" else ("float", None)
    x, w = (drawn(*shape).astype(narrow or np.float32) for shape in shapes)
    given, out = equation.split("->")
    sizes = dict(zip(given.replace(",", ""), (*x.shape, *w.shape), strict=True))
    types = (", ".join(map(str, s)) for s in (*shapes, [sizes[a] for a in out]))
    a, b, y = types
    text = f"""g ({kind}[{a}] x, {kind}[{b}] w) => ({kind}[{y}] y) {{
        y = Einsum <equation = "{equation}"> (x, w) }}"""

    module = import_onnx(parse(text, opset=17))
    found, rules = run(module, x, w, precision="tf32" if precision == "tf32" else "f32")

    is_one = name != "N of two axes"  # which TMA cannot read
    assert precision != "f16" or ("GemmWgmma" if is_one else "GemmMmaSync") in rules
    expected = np.einsum(equation, x.astype(np.float64), w.astype(np.float64))
    share = {"f32": 1e-5, "tf32": 1e-3, "f16": 2e-3}[precision]
    bound = share * float(np.abs(expected).max())
    np.testing.assert_allclose(found, expected, atol=bound, rtol=0)


_PROGRAM = """
func.func @k(%x: memref<{x}xf16>, %w: memref<{w}xf16>, %y: memref<64x64xf32>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  "tir.block"() ({{
  ^bb0(%i: index, %j: index, %k: index):
    %zero = arith.constant 0.0 : f32
    memref.store %zero, %y[%i, %j] : memref<64x64xf32>
    gpu.yield
  }}, {{
  ^bb0(%i: index, %j: index, %k: index):
    {terms}
    %a = memref.load %x[{at_x}] : memref<{x}xf16>
    %b = memref.load %w[{at_w}] : memref<{w}xf16>
    %c = arith.extf %a : f16 to f32
    %d = arith.extf %b : f16 to f32
    %p = arith.mulf %c, %d : f32
    %old = memref.load %y[%i, %j] : memref<64x64xf32>
    %new = arith.addf %old, %p : f32
    memref.store %new, %y[%i, %j] : memref<64x64xf32>
    gpu.yield
  }}) {{name = "sum", kinds = "SSR", static_extents = array<i64: 64, 64, 24>,
       operandSegmentSizes = array<i32: 0, 0>}} : () -> ()
  return
}}"""


@pytest.mark.parametrize(
    ("terms", "x", "w", "at_x", "at_w", "take"),
    [
        (
            "%c16 = arith.constant 16 : index\n %t = arith.addi %k, %c16 : index",
            *("64x64", "64x64", "%i, %t", "%t, %j"),
            lambda x, w: (x[:, 16:40], w[16:40]),
        ),
        (
            "%c2 = arith.constant 2 : index\n %t = arith.muli %k, %c2 : index",
            *("64x64", "64x64", "%t, %i", "%t, %j"),
            lambda x, w: (x[:48:2].T, w[:48:2]),
        ),
    ],
)
def test_k_of_a_slice_ends_with_the_slice(
    terms: str, x: str, w: str, at_x: str, at_w: str, take: Callable[..., Any]
) -> None:
    text = _PROGRAM.format(terms=terms, x=x, w=w, at_x=at_x, at_w=at_w)
    loops = lower(IRModule.parse(text), target=_TARGET, to="loops")
    a, b = (drawn(64, 64).astype(np.float16) for _ in range(2))
    like = np.zeros((64, 64), np.float32)

    (y,) = emulated_program(loops, [a, b], [like], target=_TARGET)

    rows, columns = take(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(y, rows @ columns, atol=1e-4, rtol=0)


def test_dynamic_rows_have_no_split_k() -> None:
    loops = lower(layer("n", 4096, 64, is_transposed=False), target=_TARGET, to="loops")
    (product,) = (f for f in loops.func_ops() if "matmul" in f.name.value)
    assert str(product).count("gpu.launch") == 1


@pytest.mark.parametrize("rows", [1, 7, 40])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_dynamic_rows(rows: int, precision: str) -> None:
    x, w, b = drawn(rows, 48), drawn(48, 40), drawn(40)

    y, _ = run(layer("n", 48, 40, is_transposed=False), x, w, b, precision=precision)

    if precision != "f32":
        x, w = rounded(x, precision), rounded(w, precision)
    np.testing.assert_allclose(y, np.maximum(x @ w + b, 0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 300, 200), (3, 1000, 96), (1, 64, 4), (4, 40, 7)]
)
def test_gemv(sizes: tuple[int, int, int], is_transposed: bool) -> None:
    check(sizes, is_transposed, "f32", rule="Gemv")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("precision", "size", "groups"),
    [
        *(("f32", 1, 1), ("f32", 3, 1), ("f32", 3, 2)),
        *(("bf16", 1, 1), ("bf16", 3, 1), ("f16", 9, 1), ("tf32", 5, 1)),
    ],
)
def test_convolutions(precision: str, stride: int, size: int, groups: int) -> None:
    channels, out, pad = 16, 20, size // 2
    text = f"""g (float[2, {channels}, 11, 13] x,
            float[{out}, {channels // groups}, {size}, {size}] w) => (float[a, b, c, d] y) {{
        p = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}],
            group = {groups}> (x, w)
        y = Relu (p) }}"""
    x, w = drawn(2, channels, 11, 13), drawn(out, channels // groups, size, size)

    y, _ = run(import_onnx(parse(text, opset=17)), x, w, precision=precision)

    if precision not in ("f32", "tf32"):
        x, w = rounded(x, precision), rounded(w, precision)
    parts = zip(np.split(x, groups, 1), np.split(w, groups), strict=True)
    sums = np.concatenate([convolved(a, b, stride) for a, b in parts], axis=1)
    bound = BOUNDS.get(precision, 1e-5) * float(np.abs(sums).max())
    np.testing.assert_allclose(y, np.maximum(sums, 0), atol=bound, rtol=0)


def test_dynamic_batches_use_async_copies_if_aligned() -> None:
    text = """g (float[b, s, 64] x, float[b, 64, 40] w) => (float[b, s, 40] y) {
        y = MatMul (x, w) }"""
    module = import_onnx(parse(text, opset=17))
    x, w = (rounded(a, "f16") for a in (drawn(3, 21, 64), drawn(3, 64, 40)))

    for sm, rule, copy in (
        (80, "GemmMmaSync", "nvgpu.device_async_copy"),
        (90, "GemmWgmma", "nvgpu.tma.async.load"),
    ):
        target = target_of(f"cuda:sm_{sm}")
        y, rules = run(module, x, w, precision="f16", target=target)
        loops = lower(module, target=target, to="loops", precision="f16")
        assert rule in rules
        assert copy in str(loops)
        np.testing.assert_allclose(y, x @ w, atol=1e-4, rtol=0)


def test_batches_and_special_numbers() -> None:
    text = """g (float[3, 20, 24] x, float[3, 24, 18] w) => (float[3, 20, 18] y) {
        y = MatMul (x, w) }"""
    x, w = drawn(3, 20, 24), drawn(3, 24, 18)
    x[0, 1, 2], x[1, 3, 4], w[2, 5, 6] = np.nan, np.inf, -np.inf

    y, _ = run(import_onnx(parse(text, opset=17)), x, w)

    with np.errstate(invalid="ignore"):
        expected = x @ w
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=0)
