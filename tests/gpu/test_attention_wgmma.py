"""Warp-specialized flash attention: sizes, masks, types, synchronization."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir

from models import bert, gpt2
from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler import reference
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attention import AttentionBiasOp, AttentionOp
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.schedules.gpu import attention_wgmma
from relax_mlir.schedules.gpu.attention_wgmma import AttentionWgmma
from relax_mlir.schedules.gpu.attention_wgmma_kernel import AttentionWgmmaConfiguration
from relax_mlir.schedules.kernel_view import read_kernel
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.schedules.target_features import Gpu
from relax_mlir.testing import case_module
from tests.frontends.onnx.differential import parse
from tests.gpu.emulated import emulated
from tests.gpu.stub import TARGET, Emulation
from tests.gpu.test_attention import (
    BOUNDS,
    HIDING,
    MASKS,
    check_hidden,
    check_numbers,
    code_of,
    hidden,
    model,
    prepared,
    wanted,
)
from tests.gpu.test_barriers import check_all_needed, check_all_waits_needed, is_right
from tests.gpu.test_gemm import run
from tests.gpu.test_models import rules_of
from tests.helpers.searching import examples
from tests.schedules.cpu.test_attention import Sizes
from tests.schedules.low_precision import rounded

_TARGET = "cuda:sm_90"
_TYPES = ("f16", "bf16")


def check(sizes: Sizes, mask: str, precision: str, config: str = "") -> None:
    arrays = prepared(sizes, mask, precision)

    y, rules = run(model(sizes, mask), *arrays, precision=precision, config=config)

    assert "AttentionWgmma" in rules
    check_numbers(y, sizes, mask, arrays, precision)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("precision", _TYPES)
def test_masks(precision: str, mask: str) -> None:
    check(Sizes(2, 2, 70, 75, 32, 48), mask, precision)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("precision", _TYPES)
@pytest.mark.parametrize("tokens", [33, 64, 65, 127, 128, 300])
def test_numbers_of_queries_and_keys(tokens: int, precision: str) -> None:
    sizes = Sizes(1, 2, tokens, tokens, 64, 64, is_transposed=True)
    check(sizes, "add", precision)
    check(replace(sizes, keys=17, is_transposed=False), "none", precision)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("precision", _TYPES)
@pytest.mark.parametrize(
    ("depth", "values"),
    [(32, 32), (80, 80), (128, 128), (128, 64), (16, 24), (64, 256), (256, 256)],
)
def test_head_dims(depth: int, values: int, precision: str) -> None:
    check(Sizes(1, 2, 70, 130, depth, values), "none", precision)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("keys", [128, 64])
@pytest.mark.parametrize("rows", [128, 64])
@pytest.mark.parametrize("precision", _TYPES)
def test_every_configuration(precision: str, rows: int, keys: int) -> None:
    config = f"AttentionWgmma{{rows={rows},keys={keys},stages=2}}"
    check(Sizes(1, 1, 150, 340, 32, 32), "add", precision, config)


sizes = st.builds(
    Sizes,
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from([33, 63, 64, 130, 150, 257]),
    st.sampled_from([17, 40, 64, 129, 300]),  # smaller head dims are padded
    st.sampled_from([16, 64, 72, 128]),
    st.sampled_from([8, 16, 64, 80, 128]),
    st.booleans(),
)


@pytest.mark.slow
@examples(3)
@given(sizes, st.sampled_from(list(MASKS)), st.sampled_from(_TYPES))
def test_many_sizes(sizes: Sizes, mask: str, precision: str) -> None:
    check(sizes, mask, precision)


@pytest.mark.parametrize("precision", _TYPES)
def test_large_scores(precision: str) -> None:
    """All scores are 50, one is 51: the maximum is in a later tile."""
    sizes = Sizes(1, 1, 40, 200, 32, 16)
    q, k, v, m = prepared(sizes, "none", precision)
    q[...], k[...] = 2.5, 1.25
    k[..., 190, :] = 1.28125

    y, rules = run(model(sizes, "none"), q, k, v, m, precision=precision)

    assert "AttentionWgmma" in rules
    right = wanted(sizes, "none", [q, k, v, m])
    np.testing.assert_allclose(y, right, atol=BOUNDS[precision], rtol=0)


def test_fully_masked_rows_are_nan() -> None:
    """A fully masked row yields NaN."""
    sizes = Sizes(1, 2, 70, 150, 32, 16)
    arrays = prepared(sizes, "add", "f16")
    arrays[3][0, 0, 1] = -np.inf
    arrays[3][0, 0, 3, ::2] = -np.inf
    arrays[3][0, 0, 4, :130] = -np.inf  # whole tiles

    y, rules = run(model(sizes, "add"), *arrays, precision="f16")

    assert "AttentionWgmma" in rules
    assert np.isnan(y[:, :, 1]).all()
    right = wanted(sizes, "add", arrays)
    np.testing.assert_allclose(y, right, atol=BOUNDS["f16"], rtol=0)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("number", HIDING)
@pytest.mark.parametrize("precision", _TYPES)
def test_masks_of_large_negative_values(precision: str, number: float) -> None:
    sizes, arrays = hidden(number, precision)

    y, rules = run(model(sizes, "add"), *arrays, precision=precision)

    assert "AttentionWgmma" in rules
    check_hidden(y, sizes, arrays, BOUNDS[precision])


_SCALES = {
    "less than 0": ("s = Mul (p, a)", -0.5),
    "twice less than 0": ("t = Mul (p, a) s = Mul (t, a)", 0.25),
    "divided": ("s = Div (p, a)", -2.0),
    "another's number first": ("t = Add (m, p) s = Mul (t, a)", None),
}


@pytest.mark.parametrize("name", _SCALES)
def test_scales(name: str) -> None:
    """A negative or zero scale does not preserve the maximum."""
    text, scale = _SCALES[name]
    sizes = Sizes(1, 2, 70, 150, 32, 16)
    q, k, v, m = prepared(sizes, "none", "f16")
    given = f"""g (float[1, 2, 70, 32] q, float[1, 2, 150, 32] k, float[1, 2, 150, 16] v,
            float[1, 1, 70, 150] m) => (float[a, b, c, d] y) <float a = {{-0.5}}> {{
        r = Transpose <perm = [0, 1, 3, 2]> (k)
        p = MatMul (q, r) {text} w = Softmax <axis = -1> (s) y = MatMul (w, v) }}"""
    module = import_onnx(parse(given, opset=17))

    y, rules = run(module, q, k, v, m, precision="f16")

    assert "AttentionWgmma" in rules
    products = q.astype(np.float64) @ k.swapaxes(2, 3)
    scores = -0.5 * (m + products) if scale is None else scale * products
    e = np.exp(scores - scores.max(-1, keepdims=True))
    right = e / e.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(y, right, atol=BOUNDS["f16"] * 3, rtol=0)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_stays_in_its_row(number: float) -> None:
    sizes = Sizes(1, 2, 70, 150, 32, 16)
    arrays = prepared(sizes, "none", "f16")
    arrays[0][0, 1, 2, 3] = number
    arrays[2][0, 0, 7, 1] = number

    y, rules = run(model(sizes, "none"), *arrays, precision="f16")

    assert "AttentionWgmma" in rules
    right = wanted(sizes, "none", arrays)
    assert np.isnan(right).any()
    np.testing.assert_allclose(y, right, atol=BOUNDS["f16"], rtol=BOUNDS["f16"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (40, 3), (70, 130), (70, 0)])
def test_dynamic_sizes(queries: int, keys: int) -> None:
    """Interleaved heads: token strides are static."""
    sizes = Sizes(1, 2, queries, keys, 32, 16, is_transposed=True)
    arrays = prepared(sizes, "add", "f16")

    y, rules = run(model(sizes, "add", ("s", "t")), *arrays, precision="f16")

    assert "AttentionWgmma" in rules
    if keys:
        right = wanted(sizes, "add", arrays)
        np.testing.assert_allclose(y, right, atol=BOUNDS["f16"], rtol=0)
    else:
        np.testing.assert_array_equal(y, np.zeros(y.shape))  # empty sums


def test_tensor_maps_follow_dynamic_sizes(emulation: Emulation) -> None:
    """Tensor maps follow dynamic sizes; empty tensors have none."""
    names, sizes = ("s", "t"), Sizes(2, 2, 1, 1, 32, 16, is_transposed=True)
    module = model(sizes, "add", names)
    made = compile(module, target=TARGET, precision="f16", cache=False)
    assert isinstance(made, CudaExecutable)

    for queries, keys in ((70, 130), (33, 40), (5, 0), (0, 5)):
        now = replace(sizes, queries=queries, keys=keys)
        arrays = prepared(now, "add", "f16")
        (y,) = made(*arrays)
        right = np.zeros(y.shape)
        if queries and keys:
            right = wanted(now, "add", arrays)
        np.testing.assert_allclose(y, right, atol=BOUNDS["f16"], rtol=0)


@pytest.mark.parametrize("precision", _TYPES)
def test_grouped_query_attention(precision: str) -> None:
    """Each of two groups of three, as a model with fewer heads of keys has them."""
    text = """g (float[2, 2, 3, 40, 32] q, float[2, 2, 1, 70, 32] k,
               float[2, 2, 1, 70, 24] v) => (float[a, b, c, d, e] y) {
        t = Transpose <perm = [0, 1, 2, 4, 3]> (k)
        s = MatMul (q, t) w = Softmax (s) y = MatMul (w, v) }"""
    shapes = (2, 2, 3, 40, 32), (2, 2, 1, 70, 32), (2, 2, 1, 70, 24)
    rng = np.random.default_rng(0)
    q, k, v = (
        rounded(rng.standard_normal(shape).astype(np.float32), precision)
        for shape in shapes
    )

    y, rules = run(import_onnx(parse(text, opset=17)), q, k, v, precision=precision)

    assert "AttentionWgmma" in rules
    e = np.exp(q.astype(np.float64) @ k.swapaxes(3, 4) - 30)
    right = e / e.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(y, right, atol=BOUNDS[precision] * 3, rtol=0)


def causal(queries: int, keys: int, causal_mask: str | None, dtype: str) -> Case:
    shapes = [(1, n, 2, 32, dtype) for n in (queries, keys, keys)]
    return Case(*shapes, causal_mask=causal_mask)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal_mask", ["TopLeft", "BottomRight", None])
@pytest.mark.parametrize(("queries", "keys"), [(130, 150), (300, 300), (90, 70)])
def test_onnx_attention_operator(
    queries: int, keys: int, causal_mask: str | None, dtype: str
) -> None:
    """More keys than queries, equally many, and fewer, where some rows are fully masked."""
    case = causal(queries, keys, causal_mask, dtype)
    module, inputs = case_module(AttentionOp, case), case.random_inputs(seed=0)
    loops = lower(module, target=_TARGET, to="loops")

    (y,) = emulated(loops, *inputs, target=_TARGET)

    assert rules_of(loops) == {"AttentionWgmma": 1}
    with np.errstate(invalid="ignore"):
        (right,) = reference.run(module, *inputs)
    bound = {"float16": 2e-3, "bfloat16": 1e-2}[dtype]
    ours, theirs = (a.astype(np.float64) for a in (y, right))
    np.testing.assert_allclose(ours, theirs, atol=bound * 3, rtol=0)


def test_onnx_attention_operator_with_a_bias() -> None:
    shapes = (1, 40, 2, 32, "float16"), (1, 70, 2, 32, "float16")
    case = Case(
        *shapes,
        (1, 70, 2, 16, "float16"),
        (1, 2, 40, 70, "float16"),
        causal_mask="TopLeft",
    )
    module, inputs = case_module(AttentionBiasOp, case), case.random_inputs(seed=0)
    loops = lower(module, target=_TARGET, to="loops")

    (y,) = emulated(loops, *inputs, target=_TARGET)

    assert rules_of(loops) == {"AttentionWgmma": 1}
    (right,) = reference.run(module, *inputs)
    ours, theirs = (a.astype(np.float64) for a in (y, right))
    np.testing.assert_allclose(ours, theirs, atol=6e-3, rtol=0)


_SMALL: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}


@pytest.mark.parametrize(
    "made",
    [
        bert.build(**_SMALL),
        bert.build(**_SMALL, seq=40, batch=2),
        gpt2.build(40, **_SMALL),
    ],
    ids=["bert, open sizes", "bert", "gpt2"],
)
def test_models_use_the_rule(made: Any) -> None:
    loops = lower(import_onnx(made), target=_TARGET, to="loops", precision="f16")
    assert rules_of(loops)["AttentionWgmma"] == 1


Attended = tuple[IRModule, list[np.ndarray], np.ndarray]


@pytest.fixture(scope="module")
def attended() -> Iterator[Attended]:
    """An attention of two consumer warpgroups, with full and partially masked key tiles.

    Returns the module at `loops`, its inputs, and its outputs.
    """
    small = AttentionWgmmaConfiguration(128, keys=32, stages=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_wgmma, "_CONFIGURATIONS", (small,))
        case = Case(*[(1, 200, 1, 32, "float16")] * 3, causal_mask="TopLeft")
        module, inputs = case_module(AttentionOp, case), case.random_inputs(seed=0)
        loops = lower(module, target=_TARGET, to="loops")
        (expected,) = emulated(loops, *inputs, target=_TARGET)
        assert is_right(loops, inputs, expected)
        yield loops, inputs, expected


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name",
    [
        "gpu.barrier",
        "nvgpu.mbarrier.arrive",
        "nvgpu.mbarrier.arrive.expect_tx",
        "nvgpu.mbarrier.init",
        "nvgpu.mbarrier.try_wait.parity",
        "nvgpu.tma.async.load",
        "nvvm.barrier",
        "nvvm.barrier.arrive",
        "nvvm.wgmma.commit.group.sync.aligned",
        "nvvm.wgmma.fence.aligned",
        "nvvm.wgmma.wait.group.sync.aligned",
    ],
)
def test_every_synchronization_is_needed(attended: Attended, name: str) -> None:
    check_all_needed(*attended, name)


def test_stages_are_not_overwritten_early(attended: Attended) -> None:
    check_all_waits_needed(*attended)


@pytest.mark.parametrize(
    ("sizes", "precision", "sm", "reason"),
    [
        (Sizes(1, 2, 64, 64, 32, 32), "f16", 80, "is not of compute capability 9.0"),
        (Sizes(1, 2, 64, 64, 32, 32), "f32", 90, "its operands are f32"),
        (Sizes(1, 2, 32, 64, 32, 32), "f16", 90, "it has fewer than 33 rows"),
        (Sizes(1, 2, 64, 64, 36, 32), "f16", 90, "16 bytes"),
    ],
)
def test_refusals(sizes: Sizes, precision: str, sm: int, reason: str) -> None:
    given = model(sizes, "none")
    linalg = lower(given, target=_TARGET, to="linalg", precision=precision)
    (kernel,) = (f for f in linalg.func_ops() if "softmax" in f.name.value)
    end = list(kernel.entry_block.operations)[-1]
    refused = pytest.raises(NotApplicable, match=reason)
    with linalg.context, kernel.location, ir.InsertionPoint(end), refused:
        AttentionWgmma(Gpu(sm)).plan(read_kernel(kernel))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("size", "causal_mask"),
    [
        (64, None),
        (64, "TopLeft"),
        (80, None),
        (128, None),
        (128, "TopLeft"),
        (256, None),
    ],
)
def test_accumulators_stay_in_registers(
    size: int, dtype: str, causal_mask: str | None, tmp_path: Path
) -> None:
    case = Case(*[(8, 1024, 16, size, dtype)] * 3, causal_mask=causal_mask)
    module = lower(case_module(AttentionOp, case), target=_TARGET, to="ptx")

    code = code_of(module, tmp_path, "sm_90a")

    # The first tile, those that all rows see, and others; values come a tile later.
    tiles, keys = 2 if causal_mask is None else 3, 64 if size == 256 else 128
    products = {name: n for name, n in code.items() if name.startswith("HGMMA")}
    right: Counter[str] = Counter()
    suffix = ".BF16" if dtype == "bfloat16" else ""
    right[f"HGMMA.64x{keys}x16.F32{suffix}"] += tiles * size // 16
    right[f"HGMMA.64x{size}x16.F32{suffix}"] += tiles * keys // 16
    assert products == right
    # Of a thread's scores, and of two rows' scales; a score is scaled with its exponent.
    assert code["MUFU.EX2"] == tiles * (keys // 2 + 2)
    assert code["FMUL"] < (tiles - 1) * size + 16
    assert code["USETMAXREG.DEALLOC.CTAPOOL"] == 1
    assert not {"LDL", "STL", "STS", "LDS"} & set(code)
