"""Flash attention on a GPU: sizes, masks, element types, NaN and infinity."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir
from onnx import ModelProto

from models import bert, gpt2
from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import target_of
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attention import AttentionBiasOp, AttentionOp
from relax_mlir.rewrite.patterns import erase
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.testing import case_module
from tests.frontends.onnx.differential import parse
from tests.gpu.emulated import emulated
from tests.gpu.stub import TARGET, Emulation
from tests.gpu.test_assembly import assembled, instructions
from tests.gpu.test_barriers import is_right, operations
from tests.gpu.test_gemm import run as run_on
from tests.gpu.test_models import rules_of
from tests.helpers.searching import examples
from tests.schedules.cpu.test_attention import Sizes, drawn, expected
from tests.schedules.low_precision import rounded

# On Hopper, warpgroups take the most: test_attention_wgmma.py.
_TARGET = target_of("cuda:sm_80")
# Of the largest result. Factors of products are rounded: when they are read, or before.
BOUNDS = {"f32": 1e-5, "tf32": 1e-3, "f16": 2e-3, "bf16": 1e-2}

_SMALL: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}

MASKS = {
    "none": ("", "s"),
    "add": ("b = Add (s, m)", "b"),
    "key": (
        "i = Constant <value_ints = [0]> () r = Gather <axis = 2> (m, i) b = Add (s, r)",
        "b",
    ),
    "turned": ("t = Transpose <perm = [0, 1, 3, 2]> (m) b = Add (s, t)", "b"),
    "where": ("t = Cast <to = 9> (m) b = Where (t, low, s)", "b"),
    "cap": ("a = Tanh (s) b = Mul (a, cap)", "b"),
}


def run(
    module: IRModule, *arrays: np.ndarray, precision: str = "f32", config: str = ""
) -> tuple[np.ndarray, set[str]]:
    """Runs an attention; returns its output and the rules of its kernels."""
    return run_on(module, *arrays, precision=precision, config=config, target=_TARGET)


def model(sizes: Sizes, mask: str, names: tuple[str, str] | None = None) -> IRModule:
    """An attention as exporters write it.

    Args:
        names: of the numbers of queries and keys, if they are symbolic.
    """
    queries, keys = names or (str(sizes.queries), str(sizes.keys))
    q, k, v, y = (
        ", ".join(map(str, sizes.shape(tokens, width)))  # pyright: ignore[reportArgumentType]
        for tokens, width in (
            (queries, sizes.depth),
            (keys, sizes.depth),
            (keys, sizes.values),
            (queries, sizes.values),
        )
    )
    given, name = MASKS[mask]
    shape = f"{keys}, {queries}" if mask == "turned" else f"{queries}, {keys}"
    heads, turned = (
        ("0, 2, 1, 3", "0, 2, 3, 1")
        if sizes.is_transposed
        else ("0, 1, 2, 3", "0, 1, 3, 2")
    )
    text = f"""g (float[{q}] q, float[{k}] k, float[{v}] v,
            float[{sizes.batch}, 1, {shape}] m) => (float[{y}] y)
            <float scale = {{0.5}}, float low = {{-1e30}}, float cap = {{3.0}}> {{
        qh = Transpose <perm = [{heads}]> (q)
        kt = Transpose <perm = [{turned}]> (k)
        vh = Transpose <perm = [{heads}]> (v)
        p = MatMul (qh, kt)
        s = Mul (p, scale)
        {given}
        w = Softmax <axis = -1> ({name})
        o = MatMul (w, vh)
        y = Transpose <perm = [{heads}]> (o) }}"""
    return import_onnx(parse(text, opset=17))


def wanted(sizes: Sizes, mask: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The reference, in f64."""
    q, k, v, m = arrays
    if mask in ("none", "add", "where"):
        return expected(sizes, mask, arrays)
    if mask == "turned":
        return expected(sizes, "add", [q, k, v, m.swapaxes(2, 3)])
    if mask == "key":
        return expected(sizes, "add", [q, k, v, np.broadcast_to(m[:, :, :1], m.shape)])
    a, b, c = (x.astype(np.float64) for x in (q, k, v))
    if sizes.is_transposed:
        a, b, c = (x.swapaxes(1, 2) for x in (a, b, c))
    e = np.exp(3 * np.tanh(0.5 * (a @ b.swapaxes(2, 3))))
    y = e / e.sum(-1, keepdims=True) @ c
    return y.swapaxes(1, 2) if sizes.is_transposed else y


def prepared(sizes: Sizes, mask: str, precision: str) -> list[np.ndarray]:
    """Inputs, in the operand types, with scores of about 1."""
    q, k, v, m = drawn(sizes, "float")
    q *= np.float32(2 / sizes.depth**0.5)
    if precision in ("f16", "bf16"):
        q, k, v = (rounded(a, precision) for a in (q, k, v))
    return [q, k, v, np.ascontiguousarray(m.swapaxes(2, 3)) if mask == "turned" else m]


def check_numbers(
    y: np.ndarray, sizes: Sizes, mask: str, arrays: list[np.ndarray], precision: str
) -> None:
    """Checks the error against the rounding error of the operands."""
    right = wanted(sizes, mask, arrays)
    bound = BOUNDS[precision] * float(np.abs(right).max())
    np.testing.assert_allclose(y, right, atol=bound, rtol=0)


def check(sizes: Sizes, mask: str, precision: str) -> None:
    arrays = prepared(sizes, mask, precision)

    y, rules = run(model(sizes, mask), *arrays, precision=precision)

    assert "Attention" in rules
    assert not rules & {"GemmMmaSync", "GemmSimt", "GemmWgmma", "RowReduction"}
    check_numbers(y, sizes, mask, arrays, precision)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("precision", BOUNDS)
def test_masks(precision: str, mask: str) -> None:
    check(Sizes(2, 2, 70, 75, 32, 48), mask, precision)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("tokens", [1, 7, 64, 65, 200])
def test_numbers_of_queries_and_keys(tokens: int, precision: str) -> None:
    """Few keys or few rows leave partial tiles."""
    sizes = Sizes(1, 2, tokens, max(tokens, 2), 64, 64, is_transposed=True)
    arrays = prepared(sizes, "add", precision)

    y, rules = run(model(sizes, "add"), *arrays, precision=precision)

    is_rounded_in_part = precision in ("f16", "bf16") and tokens == 7
    assert ("Attention" in rules) != is_rounded_in_part
    check_numbers(y, sizes, "add", arrays, precision)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize(
    ("depth", "values"), [(32, 32), (80, 80), (128, 64), (20, 12), (64, 256)]
)
def test_head_dims(depth: int, values: int, precision: str) -> None:
    check(Sizes(1, 2, 40, 50, depth, values), "none", precision)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("rows", [128, 64, 32, 16])
@pytest.mark.parametrize("precision", BOUNDS)
def test_every_configuration(precision: str, rows: int) -> None:
    sizes = Sizes(1, 1, 150, 140, 32, 32)
    arrays = prepared(sizes, "add", precision)

    config = f"Attention{{rows={rows}}}"
    y, _ = run(
        model(sizes, "add"),
        *arrays,
        precision=precision,
        config=config,
    )

    check_numbers(y, sizes, "add", arrays, precision)


sizes = st.builds(
    Sizes,
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 8, 17, 33, 130, 150]),
    st.sampled_from([2, 15, 16, 17, 40, 64, 129, 300]),
    st.sampled_from([1, 3, 8, 16, 33, 64]),
    st.sampled_from([1, 5, 16, 31, 64, 80]),
    st.booleans(),
)


@pytest.mark.slow
@examples(4)
@given(sizes, st.sampled_from(list(MASKS)), st.sampled_from(list(BOUNDS)))
def test_many_sizes(sizes: Sizes, mask: str, precision: str) -> None:
    arrays = prepared(sizes, mask, precision)

    y, _ = run(model(sizes, mask), *arrays, precision=precision)

    check_numbers(y, sizes, mask, arrays, precision)


@pytest.mark.parametrize("queries", [3, 40])
@pytest.mark.parametrize("precision", BOUNDS)
def test_large_scores(precision: str, queries: int) -> None:
    """All scores are 50, one is 51: the maximum is in a later tile."""
    sizes = Sizes(1, 1, queries, 100, 32, 16)
    q, k, v, m = prepared(sizes, "none", precision)
    q[...], k[...] = 2.5, 1.25
    k[..., 90, :] = 1.28125

    y, _ = run(model(sizes, "none"), q, k, v, m, precision=precision)

    right = wanted(sizes, "none", [q, k, v, m])
    np.testing.assert_allclose(y, right, atol=BOUNDS[precision], rtol=0)


@pytest.mark.parametrize("queries", [6, 40])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_fully_masked_rows_are_nan(precision: str, queries: int) -> None:
    """A fully masked row yields NaN."""
    sizes = Sizes(1, 2, queries, 70, 32, 16)
    arrays = prepared(sizes, "add", precision)
    arrays[3][0, 0, 1] = -np.inf
    arrays[3][0, 0, 3, ::2] = -np.inf
    arrays[3][0, 0, 4, :66] = -np.inf  # whole tiles

    y, rules = run(model(sizes, "add"), *arrays, precision=precision)

    assert "Attention" in rules or precision == "f16"
    assert np.isnan(y[:, :, 1]).all()
    right = wanted(sizes, "add", arrays)
    np.testing.assert_allclose(y, right, atol=BOUNDS[precision], rtol=0)


# What models add to hide a key: then a row's greatest score may be that.
HIDING = [-1e4, -1e9, float(np.finfo(np.float32).min)]


def hidden(number: float, precision: str) -> tuple[Sizes, list[np.ndarray]]:
    """Inputs whose mask hides a leading range of keys, longer than a tile; all in row 1."""
    sizes = Sizes(1, 2, 70, 300, 32, 16)
    arrays = prepared(sizes, "add", precision)
    arrays[3][...] = 0
    arrays[3][..., :200] = number
    arrays[3][0, 0, 1] = number
    return sizes, arrays


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", HIDING)
@pytest.mark.parametrize("precision", ["f32", "tf32", "f16", "bf16"])
def test_masks_of_large_negative_values(precision: str, number: float) -> None:
    sizes, arrays = hidden(number, precision)

    y, rules = run(model(sizes, "add"), *arrays, precision=precision)

    assert "Attention" in rules
    check_hidden(y, sizes, arrays, BOUNDS[precision])


def check_hidden(
    y: np.ndarray, sizes: Sizes, arrays: list[np.ndarray], bound: float
) -> None:
    """Checks rows against those without masked keys; a fully masked row is some mean."""
    right = wanted(sizes, "add", arrays)
    seen = np.delete(np.arange(sizes.queries), 1)
    np.testing.assert_allclose(y[:, :, seen], right[:, :, seen], atol=bound, rtol=0)
    least, most = (f(arrays[2], axis=2) for f in (np.min, np.max))
    assert ((least <= y[:, :, 1]) & (y[:, :, 1] <= most)).all()


@pytest.mark.parametrize("queries", [6, 40])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_stays_in_its_row(number: float, queries: int) -> None:
    sizes = Sizes(1, 2, queries, 70, 32, 16)
    arrays = prepared(sizes, "none", "f32")
    arrays[0][0, 1, 2, 3] = number
    arrays[2][0, 0, 7, 1] = number

    y, _ = run(model(sizes, "none"), *arrays)

    right = wanted(sizes, "none", arrays)
    assert np.isnan(right).any()
    np.testing.assert_allclose(y, right, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (40, 3), (37, 130), (70, 0)])
def test_dynamic_sizes(queries: int, keys: int, precision: str) -> None:
    sizes = Sizes(1, 2, queries, keys, 32, 16)
    arrays = prepared(sizes, "add", precision)

    y, rules = run(model(sizes, "add", ("s", "t")), *arrays, precision=precision)

    assert "Attention" in rules
    if keys:
        right = wanted(sizes, "add", arrays)
        np.testing.assert_allclose(y, right, atol=BOUNDS[precision], rtol=0)
    else:
        np.testing.assert_array_equal(y, np.zeros(y.shape))  # empty sums


def test_heads_with_dynamic_strides_use_async_copies() -> None:
    """Head strides are dynamic, but multiples of 16 bytes."""
    sizes = Sizes(2, 3, 40, 50, 32, 16)
    for size, is_copied in ((sizes, True), (replace(sizes, depth=33), False)):
        loops = lower(model(size, "none", ("s", "t")), target=_TARGET, to="loops")
        assert ("nvgpu.device_async_copy" in str(loops)) == is_copied


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize("queries", [1, 40])
def test_grouped_query_attention(queries: int, precision: str) -> None:
    """Each of two groups of three, as a model with fewer heads of keys has them."""
    text = f"""g (float[2, 2, 3, {queries}, 32] q, float[2, 2, 1, 70, 32] k,
               float[2, 2, 1, 70, 24] v) => (float[a, b, c, d, e] y) {{
        t = Transpose <perm = [0, 1, 2, 4, 3]> (k)
        s = MatMul (q, t) w = Softmax (s) y = MatMul (w, v) }}"""
    shapes = (2, 2, 3, queries, 32), (2, 2, 1, 70, 32), (2, 2, 1, 70, 24)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    if precision != "f32":
        q, k, v = (rounded(a, precision) for a in (q, k, v))

    y, rules = run(import_onnx(parse(text, opset=17)), q, k, v, precision=precision)

    assert "Attention" in rules
    e = np.exp(q.astype(np.float64) @ k.swapaxes(3, 4) - 30)
    right = e / e.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(y, right, atol=BOUNDS[precision] * 3, rtol=0)


def test_shared_subexpressions_are_searched_once() -> None:
    """Searching scale factors through shared subexpressions is not exponential."""
    squares = " ".join(f"s{n + 1} = Mul (s{n}, s{n})" for n in range(40))
    text = f"""g (float[8, 32] q, float[32, 16] k, float[16, 8] v) => (float[8, 8] y) {{
        s0 = MatMul (q, k) {squares} w = Softmax (s40) y = MatMul (w, v) }}"""

    loops = lower(import_onnx(parse(text, opset=17)), target=_TARGET, to="loops")

    assert rules_of(loops) == {"Attention": 1}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keys", [70, 150, 1000])
@pytest.mark.parametrize("queries", [1, 3, 7])
def test_decode_splits_keys(queries: int, keys: int) -> None:
    sizes = Sizes(2, 3, queries, keys, 80, 24)
    arrays = prepared(sizes, "add", "f32")
    loops = lower(model(sizes, "add"), target=_TARGET, to="loops")

    (y,) = emulated(loops, *arrays, target=_TARGET)

    kernel = next(f for f in loops.func_ops() if "softmax" in f.name.value)
    assert str(kernel).count("gpu.launch") == (1 if keys < 256 else 2)
    right = wanted(sizes, "add", arrays)
    np.testing.assert_allclose(y, right, atol=1e-5, rtol=0)


def test_decode_workspace_is_in_model_memory(emulation: Emulation) -> None:
    """The split-KV workspace is in the model's memory."""
    sizes = Sizes(1, 3, 2, 600, 32, 24)
    arrays, module = prepared(sizes, "add", "f32"), model(sizes, "add")
    made = compile(module, target=TARGET, cache=False)
    assert isinstance(made, CudaExecutable)

    (y,) = made(*arrays)

    right = wanted(sizes, "add", arrays)
    np.testing.assert_allclose(y, right, atol=1e-5, rtol=0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("causal_mask", ["TopLeft", "BottomRight", None])
@pytest.mark.parametrize(("queries", "keys"), [(130, 150), (90, 70), (3, 70)])
def test_onnx_attention_operator(
    queries: int, keys: int, causal_mask: str | None, dtype: str
) -> None:
    shapes = [(1, n, 2, 32, dtype) for n in (queries, keys, keys)]
    case = Case(*shapes, causal_mask=causal_mask)
    module, inputs = case_module(AttentionOp, case), case.random_inputs(seed=0)
    loops = lower(module, target=_TARGET, to="loops")

    (y,) = emulated(loops, *inputs, target=_TARGET)

    (kernel,) = (f for f in loops.func_ops() if "tir.rule" in f.attributes)
    assert ir.StringAttr(kernel.attributes["tir.rule"]).value == "Attention"
    with np.errstate(invalid="ignore"):
        (right,) = reference.run(module, *inputs)
    bound = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5}[dtype]
    ours, theirs = (a.astype(np.float64) for a in (y, right))
    np.testing.assert_allclose(ours, theirs, atol=bound * 3, rtol=0)


def test_onnx_attention_operator_with_a_bias() -> None:
    shapes = (1, 40, 2, 32), (1, 70, 2, 32), (1, 70, 2, 16), (1, 2, 40, 70)
    case = Case(*shapes, causal_mask="TopLeft")
    module, inputs = case_module(AttentionBiasOp, case), case.random_inputs(seed=0)

    (y,) = emulated(module, *inputs, target=_TARGET)

    (right,) = reference.run(module, *inputs)
    np.testing.assert_allclose(y, right, atol=1e-5, rtol=0)


@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(
    "model",
    [
        bert.build(**_SMALL),
        bert.build(**_SMALL, seq=24, batch=2),
        gpt2.build(16, **_SMALL),
    ],
    ids=["bert, open sizes", "bert", "gpt2"],
)
def test_models_fuse_the_softmax(model: ModelProto, precision: str) -> None:
    loops = lower(import_onnx(model), target=_TARGET, to="loops", precision=precision)
    assert rules_of(loops)["Attention"] == 1
    assert not any(f.name.value.startswith("softmax") for f in loops.func_ops())


def code_of(module: IRModule, folder: Path, machine: str) -> Counter[str]:
    """The instructions of the only kernel of a module, which has no spills."""
    ((_, said, cubin),) = assembled(module, folder, machine)
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "serialized" not in said
    return instructions(cubin)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("causal_mask", ["TopLeft", None])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [64, 80, 128])
def test_scores_stay_in_registers(
    size: int, dtype: str, causal_mask: str | None, tmp_path: Path
) -> None:
    case = Case(*[(8, 1024, 16, size, dtype)] * 3, causal_mask=causal_mask)
    module = lower(case_module(AttentionOp, case), target=_TARGET, to="ptx")

    code = code_of(module, tmp_path, "sm_80")

    suffix = ".BF16" if dtype == "bfloat16" else ""
    assert code[f"HMMA.16816.F32{suffix}"] == size
    assert code["LDSM.16.M88.4"] == 5 * size // 16
    assert code["LDSM.16.MT88.4"] == 4 * size // 16
    assert code["LDGSTS.E.BYPASS.128"] > 0
    assert code["MUFU.EX2"] == 34  # of a thread's scores, and of two rows' scales
    assert not {"LDL", "STL"} & set(code)


_KERNELS = {
    "keys that are copied": (Sizes(1, 1, 40, 100, 32, 32), "f16"),
    "keys that wait in registers": (Sizes(1, 1, 40, 100, 36, 20), "f16"),
    "weights in shared memory": (Sizes(1, 1, 40, 100, 32, 32), "f32"),
    "parts of keys": (Sizes(1, 1, 2, 300, 32, 32), "f32"),
}


@pytest.mark.parametrize("name", _KERNELS)
def test_every_barrier_is_needed(name: str) -> None:
    sizes, precision = _KERNELS[name]
    module = model(sizes, "none")
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    inputs = prepared(sizes, "none", precision)
    (right,) = emulated(loops, *inputs, target=_TARGET)
    waits = ("gpu.barrier", "nvvm.bar.warp.sync", "nvvm.cp.async.wait.group")
    count = sum(len(list(operations(loops, wait))) for wait in waits)

    assert count > 0
    for number in range(count):
        mutant = loops.clone()
        erase([o for wait in waits for o in operations(mutant, wait)][number])
        assert not is_right(mutant, inputs, right), f"barrier {number}"
