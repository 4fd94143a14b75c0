"""Slices of tensors that matmuls and attention read in place."""

from collections import Counter

import numpy as np
import pytest

from models import bert
from relax_mlir import compile, import_onnx, lower
from relax_mlir.compiler import reference
from relax_mlir.compiler.driver import target_of
from tests.frontends.onnx.differential import parse
from tests.gpu.test_attention import BOUNDS
from tests.gpu.test_gemm import drawn, run

_TARGETS = ("cuda:sm_80", "cuda:sm_90")


def product(rows: int, begin: tuple[int, int], *, is_factor_cut: bool) -> str:
    """A matmul of a slice of x with w, or with a slice of it."""
    row, column = begin
    y = f"float[{rows}, 80] y"
    cut = f"""b = Constant <value_ints = [{row}, {column}]> ()
              e = Constant <value_ints = [{row + rows}, {column + 64}]> ()
              p = Slice (x, b, e)"""
    if is_factor_cut:
        cut += """ c = Constant <value_ints = [8]> () f = Constant <value_ints = [88]> ()
                   a = Constant <value_ints = [1]> ()
                   v = Slice (w, c, f, a) y = MatMul (p, v)"""
    else:
        cut += " v = Identity (w) y = MatMul (p, v)"
    width = 96 if is_factor_cut else 80
    return f"g (float[{rows + 9}, 90] x, float[64, {width}] w) => ({y}) {{ {cut} }}"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", _TARGETS)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("begin", [(0, 16), (3, 5)])
@pytest.mark.parametrize("rows", [1, 70, 130])
def test_products(
    rows: int, begin: tuple[int, int], precision: str, target: str
) -> None:
    for is_cut in (False, True):
        module = import_onnx(parse(product(rows, begin, is_factor_cut=is_cut)))
        x, w = drawn(rows + 9, 90), drawn(64, 96 if is_cut else 80)

        y, _ = run(module, x, w, precision=precision, target=target_of(target))

        (expected,) = reference.run(module, x, w)
        bound = BOUNDS[precision] * np.abs(expected).max()
        np.testing.assert_allclose(y, expected, rtol=0, atol=bound)
        if precision in ("f32", "tf32"):  # others are rounded on their way
            programs = lower(module, target=target, to="loops").func_ops()
            assert not any("slice" in program.name.value for program in programs)


def attention(tokens: int, heads: int, size: int, extra: int) -> str:
    """An attention on a packed QKV tensor, at an offset."""
    width = heads * size
    slices = " ".join(
        f"""{n}b = Constant <value_ints = [{extra + i * width}]> ()
            {n}e = Constant <value_ints = [{extra + (i + 1) * width}]> ()
            {n}s = Slice (x, {n}b, {n}e, two)"""
        for i, n in enumerate("qkv")
    )
    form = f"<q_num_heads = {heads}, kv_num_heads = {heads}, is_causal = 1>"
    return f"""g (float[2, {tokens}, {extra + 3 * width}] x) => (float[2, {tokens}, {width}] y)
        {{ two = Constant <value_ints = [2]> () {slices}
           y = Attention {form} (qs, ks, vs) }}"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", _TARGETS)
@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("extra", [0, 8, 3])
@pytest.mark.parametrize("tokens", [1, 5, 70])
def test_attention(tokens: int, extra: int, precision: str, target: str) -> None:
    module = import_onnx(parse(attention(tokens, 2, 32, extra), opset=23, ir=10))
    x = drawn(2, tokens, extra + 192)

    y, rules = run(module, x, precision=precision, target=target_of(target))

    (expected,) = reference.run(module, x)
    bound = BOUNDS[precision] * np.abs(expected).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=bound)
    if tokens == 70:
        assert rules <= {"Attention", "AttentionWgmma", "Elementwise"}


def test_packed_qkv_projection() -> None:
    """Attention reads the packed projection in place; numbers: test_models.py."""
    model = bert.build(layers=2, hidden=64, heads=4, vocab=100, seq=24, batch=2)
    planned = lower(import_onnx(model), target="cuda:sm_90", to="planned")

    calls = [
        op.attributes["callee"].value
        for op in planned.func_op("main").entry_block.operations
        if op.operation.name == "func.call"
    ]

    kinds = Counter(kind for name in calls for kind in _KINDS if kind in name)
    assert kinds == {"softmax": 2, "layer_norm": 5, "matmul": 2 * 5}
    assert len(calls) == 2 * (4 + 1 + 2) + 3


_KINDS = ("softmax", "layer_norm", "matmul", "slice", "transpose", "concat")


_OPEN = {
    0: ("n, 6", "m, 6", "5, 6"),
    1: ("3, n, 8", "3, m, 8", "3, 1, 8"),
    -1: ("4, n", "4, m", "4, 3"),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", [*_TARGETS, "cpu"])
@pytest.mark.parametrize("element", ["float", "float16"])
@pytest.mark.parametrize("sizes", [(1, 2), (0, 3), (17, 0), (64, 32)])
@pytest.mark.parametrize("axis", _OPEN)
def test_concatenation_along_dynamic_sizes(
    axis: int, sizes: tuple[int, int], element: str, target: str
) -> None:
    named = dict(zip("nm", sizes, strict=True))
    shapes = [shape.split(", ") for shape in _OPEN[axis]]
    rank = ", ".join("abc"[: len(shapes[0])])
    inputs = ", ".join(f"{element}[{s}] x{i}" for i, s in enumerate(_OPEN[axis]))
    joined = f"y = Concat <axis = {axis}> (x0, x1, x2)"
    text = f"g ({inputs}) => ({element}[{rank}] y) {{ {joined} }}"
    module = import_onnx(parse(text))
    dtype = np.float32 if element == "float" else np.float16
    given = [drawn(*(int(named.get(d, d)) for d in s)).astype(dtype) for s in shapes]

    if target == "cpu":
        (y,) = compile(module, cache=False)(*given)
    else:
        y, rules = run(module, *given, target=target_of(target))
        assert rules == {"MultiOutput"}

    np.testing.assert_array_equal(y, np.concatenate(given, axis))
