"""Fused attention: sizes, heads, masks, NaN and infinity."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import target_of
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.attention import AttentionOp
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.passes.tir.fuse import concatenate_programs, fuse_primitives
from relax_mlir.passes.tir.to_linalg import ToLinalg
from relax_mlir.pipeline import Pipeline
from relax_mlir.rewrite.functions import outline_calls
from relax_mlir.runtime.executable import Executable
from relax_mlir.schedules.cpu.attention import Attention
from relax_mlir.schedules.kernel_view import read_kernel
from relax_mlir.schedules.rule import NotApplicable, ScheduleRule
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.testing import case_module
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples

_MASKS = {
    "none": ("", "s"),
    "add": ("b = Add (s, m)", "b"),
    "where": ("t = Cast <to = 9> (m) b = Where (t, low, s)", "b"),
    "both": ("t = Cast <to = 9> (m) a = Where (t, low, s) b = Add (a, m)", "b"),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of an attention; `is_transposed`: whether heads come after tokens."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    values: int
    is_transposed: bool = False

    def shape(self, tokens: int, width: int) -> tuple[int, ...]:
        middle = (tokens, self.heads) if self.is_transposed else (self.heads, tokens)
        return (self.batch, *middle, width)


def model(sizes: Sizes, mask: str, dtype: str, bits: int, threads: int) -> Executable:
    """Attention as exporters write it."""
    q, k, v, y = (
        ", ".join(map(str, sizes.shape(tokens, width)))
        for tokens, width in (
            (sizes.queries, sizes.depth),
            (sizes.keys, sizes.depth),
            (sizes.keys, sizes.values),
            (sizes.queries, sizes.values),
        )
    )
    given, name = _MASKS[mask]
    last = (
        ("0, 2, 1, 3", "0, 2, 3, 1")
        if sizes.is_transposed
        else ("0, 1, 2, 3", "0, 1, 3, 2")
    )
    text = f"""g ({dtype}[{q}] q, {dtype}[{k}] k, {dtype}[{v}] v,
            {dtype}[{sizes.batch}, 1, {sizes.queries}, {sizes.keys}] m)
            => ({dtype}[{y}] y) <{dtype} scale = {{0.5}}, {dtype} low = {{-1e30}}> {{
        qh = Transpose <perm = [{last[0]}]> (q)
        kt = Transpose <perm = [{last[1]}]> (k)
        vh = Transpose <perm = [{last[0]}]> (v)
        p = MatMul (qh, kt)
        s = Mul (p, scale)
        {given}
        w = Softmax <axis = -1> ({name})
        o = MatMul (w, vh)
        y = Transpose <perm = [{last[0]}]> (o) }}"""
    target = target_of({0: "cpu", 256: "cpu:x86-64-v3"}[bits])
    return built(import_onnx(parse(text)), target=target, threads=threads)


def built(module: IRModule, **options: Any) -> Executable:
    made = compile(module, cache=False, **options)
    assert isinstance(made, Executable)
    return made


def drawn(sizes: Sizes, dtype: str, seed: int = 0) -> list[np.ndarray]:
    """Random queries, keys and values, and a mask with zeros and other values."""
    rng = np.random.default_rng(seed)
    shapes = (
        sizes.shape(sizes.queries, sizes.depth),
        sizes.shape(sizes.keys, sizes.depth),
        sizes.shape(sizes.keys, sizes.values),
        (sizes.batch, 1, sizes.queries, sizes.keys),
    )
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[3][rng.random(shapes[3]) < 0.5] = 0
    return [
        a.astype({"float": np.float32, "double": np.float64}[dtype]) for a in arrays
    ]


def expected(sizes: Sizes, mask: str, arrays: list[np.ndarray]) -> np.ndarray:
    """The definition, in f64."""
    *operands, m = (a.astype(np.float64) for a in arrays)
    if sizes.is_transposed:
        operands = [a.swapaxes(1, 2) for a in operands]
    q, k, v = operands
    with np.errstate(invalid="ignore", over="ignore"):
        s = 0.5 * (q @ k.swapaxes(2, 3))
        if mask in ("where", "both"):
            s = np.where(m != 0, -1e30, s)
        if mask in ("add", "both"):
            s = s + m
        e = np.exp(s - s.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)) @ v
    return y.swapaxes(1, 2) if sizes.is_transposed else y


def check(sizes: Sizes, mask: str, dtype: str, bits: int) -> None:
    made = model(sizes, mask, dtype, bits, threads=1)
    arrays = drawn(sizes, dtype)
    (y,) = made(*arrays)
    # Summation order in f32, on values of about 1.
    tolerance = {"float": 1e-5, "double": 1e-13}[dtype]
    wanted = expected(sizes, mask, arrays)
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)
    assert ("Attention" in [kernel.rule for kernel in made.kernels]) == (
        sizes.queries > 1
    )


@pytest.mark.parametrize("mask", _MASKS)
def test_masks(mask: str) -> None:
    check(Sizes(2, 3, 7, 5, 4, 6), mask, "float", 0)


@pytest.mark.parametrize("bits", [0, 256])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_tails_of_rows_and_keys(dtype: str, bits: int) -> None:
    check(Sizes(1, 2, 19, 37, 9, 21, is_transposed=True), "add", dtype, bits)


def test_one_query_is_not_fused() -> None:
    check(Sizes(2, 3, 1, 9, 8, 8), "add", "float", 0)


def test_blocks_of_rows_share_packed_keys() -> None:
    check(Sizes(1, 1, 70, 1600, 8, 8), "add", "float", 0)


sizes = st.builds(
    Sizes,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 2, 3, 8, 17, 33, 130, 150, 300]),
    st.sampled_from([1, 2, 15, 16, 17, 40, 64, 129, 515, 1024]),
    st.sampled_from([1, 3, 8, 16, 33, 64]),
    st.sampled_from([1, 5, 16, 31, 64, 80]),
    st.booleans(),
)


@pytest.mark.slow
@examples(10)
@given(
    sizes,
    st.sampled_from(list(_MASKS)),
    st.sampled_from(["float", "double"]),
    st.sampled_from([0, 256]),
)
def test_random_sizes(sizes: Sizes, mask: str, dtype: str, bits: int) -> None:
    check(sizes, mask, dtype, bits)


def test_fully_masked_rows_are_nan() -> None:
    """A row with all keys masked has a maximum of -infinity."""
    shape = Sizes(1, 2, 6, 20, 4, 5)
    arrays = drawn(shape, "float")
    arrays[3][0, 0, 1] = -np.inf
    arrays[3][0, 0, 3, ::2] = -np.inf
    (y,) = model(shape, "add", "float", 0, threads=1)(*arrays)
    assert np.isnan(y[:, :, 1]).all()
    wanted = expected(shape, "add", arrays)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_their_rows(number: float) -> None:
    shape = Sizes(1, 2, 6, 20, 4, 5)
    arrays = drawn(shape, "float")
    arrays[0][0, 1, 2, 3] = number
    arrays[2][0, 0, 7, 1] = number
    (y,) = model(shape, "none", "float", 0, threads=1)(*arrays)
    wanted = expected(shape, "none", arrays)
    assert np.isnan(wanted).any()
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


def test_large_scores_do_not_overflow() -> None:
    text = """g (float[1, 4, 16] q, float[1, 16, 8] k, float[1, 8, 16] v)
        => (float[1, 4, 16] y) {
        s = MatMul (q, k)
        p = LpNormalization <axis = -1, p = 1> (s)
        y = MatMul (p, v) }"""
    sizes = ((1, 4, 16), (1, 16, 8), (1, 8, 16))
    q, k, v = (
        np.full(s, x, np.float32)
        for s, x in zip(sizes, (3e14, 3e14, 1e10), strict=True)
    )

    (y,) = built(import_onnx(parse(text, opset=17)))(q, k, v)

    np.testing.assert_allclose(y, np.full((1, 4, 16), 1e10), rtol=1e-5)


@pytest.mark.slow
def test_results_do_not_depend_on_threads() -> None:
    shape = Sizes(1, 3, 300, 300, 16, 16)
    arrays = drawn(shape, "float")
    one, two, five = (
        model(shape, "add", "float", 0, threads)(*arrays)[0] for threads in (1, 2, 5)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, five)


@pytest.mark.slow
def test_dynamic_sizes() -> None:
    text = """g (float[n, h, s, 8] q, float[n, h, 8, t] k, float[n, h, t, 5] v)
            => (float[n, h, s, 5] y) {
        p = MatMul (q, k) w = Softmax <axis = -1> (p) y = MatMul (w, v) }"""
    made = built(import_onnx(parse(text)))
    assert [kernel.rule for kernel in made.kernels] == ["Attention"]
    for queries, keys in ((1, 1), (1, 40), (37, 3), (50, 130), (0, 3)):
        shape = Sizes(2, 3, queries, keys, 8, 5)
        q, k, v, m = drawn(shape, "float")
        (y,) = made(q, k.swapaxes(2, 3).copy(), v)
        wanted = expected(shape, "none", [q * 2, k, v, m])
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    q, k, v, _ = drawn(Sizes(2, 3, 4, 0, 8, 5), "float")
    (y,) = made(q, k.swapaxes(2, 3).copy(), v)
    np.testing.assert_array_equal(y, np.zeros((2, 3, 4, 5)))  # sums of nothing


@pytest.mark.parametrize("causal_mask", ["TopLeft", "BottomRight"])
def test_the_attention_operator_is_one_kernel(causal_mask: str) -> None:
    shapes = (1, 9, 2, 8), (1, 20, 2, 8), (1, 20, 2, 5)
    case = Case(*shapes, causal_mask=causal_mask)
    module, inputs = case_module(AttentionOp, case), case.random_inputs(seed=0)
    made = built(module)
    assert [kernel.rule for kernel in made.kernels] == ["Attention"]
    (wanted,) = reference.run(module, *inputs)
    np.testing.assert_allclose(made(*inputs)[0], wanted, rtol=1e-5, atol=1e-5)


def refusal(
    body: str,
    queries: int = 7,
    rule: ScheduleRule[Any] = Attention(VectorUnit(512)),  # noqa: B008  it is frozen
) -> str:
    """The reason why a rule does not match the fused program of a graph."""
    text = f"""g (float[3, {queries}, 4] q, float[3, 4, 5] k, float[3, 5, 6] v,
               float[3, {queries}, {queries}] u) => (y) {{ {body} }}"""
    module = lower(import_onnx(parse(text)), to="relax")
    Pipeline.parse("relax-legalize").run(module)
    with module.context, ir.Location.unknown():
        entry = module.func_op("main").entry_block
        calls = [op for op in entry.operations if isinstance(op, CallTirOp)]
        outline_calls(module, calls, "all")
        fuse_primitives(module, concatenate_programs)
        ToLinalg().run(module)
        program = next(f for f in module.func_ops() if f.name.value == "all")
        end = list(program.entry_block.operations)[-1]
        with ir.InsertionPoint(end), pytest.raises(NotApplicable) as refused:
            rule.plan(read_kernel(program))
    return refused.value.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "s = MatMul (q, k) w = Softmax <axis = 1> (s) y = MatMul (w, v)",
            "a statement between its matmuls is not row-wise",
        ),
        (
            "s = MatMul (q, k) w = Tanh (s) y = MatMul (w, v)",
            "it has no row reduction between its matmuls",
        ),
        (
            "s = MatMul (q, k) w = Softmax (s) z = MatMul (w, v) y = MatMul (u, z)",
            "2 matmuls follow the first, not one",
        ),
        (
            "s = MatMul (q, k) w = Softmax (s) y = MatMul (u, w)",
            "the second matmul does not read results of the first",
        ),
        (
            "s = MatMul (q, k) w = Softmax (s) z = Exp (v) y = MatMul (w, z)",
            "its queries, keys or values are computed in the kernel",
        ),
        (
            "w = Softmax (q) y = MatMul (w, k)",
            "its first statement is not a sum reduction",
        ),
    ],
)
def test_other_kernels_are_not_matched(body: str, reason: str) -> None:
    assert refusal(body) == reason


def test_one_query_is_not_matched() -> None:
    body = "s = MatMul (q, k) w = Softmax (s) y = MatMul (w, v)"
    assert refusal(body, queries=1).startswith("it has one query")
