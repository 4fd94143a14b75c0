"""Results that take the place of an argument are what they are elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relax_mlir
from relax_mlir.compiler import reference
from relax_mlir.ir.module import IRModule
from relax_mlir.testing import assert_same_numbers
from tests.frontends.onnx.differential import parse

_few = settings(max_examples=10)
_TOLERANCE = 2e-5  # of the largest number: f32, sums of a few hundred in another order

# What computes `d` of `b`, and the shape of its weight for some channels.
_SUMS = {
    "pointwise": ("Conv (b, w)", lambda c: (c, c, 1, 1)),
    "convolution": ("Conv <pads = [1, 1, 1, 1]> (b, w)", lambda c: (c, c, 3, 3)),
    "depthwise": (
        "Conv <pads = [1, 1, 1, 1], group = {c}> (b, w)",
        lambda c: (c, 1, 3, 3),
    ),
}
_MAPS = ("Add (d, a)", "Sub (a, d)", "Mul (d, a)", "Max (a, d)")


def _block(kind: str, last: str, sizes: tuple[int, int, int]) -> IRModule:
    """Of a picture, a sum of it that a map with the picture follows, between two others."""
    c, h, w = sizes
    body, weight = _SUMS[kind]
    shape = weight(c)
    rng = np.random.default_rng(1)
    weights = {"w": (rng.standard_normal(shape) / np.sqrt(c * 9)).astype(np.float32)}
    text = f"""g (float[1,{c},{h},{w}] x, float{list(shape)} w) => (float[1,{c},{h},{w}] y) {{
        a = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
        b = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)
        d = {body.format(c=c)}
        e = {last}
        f = Relu (e)
        y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (f)
    }}"""
    return relax_mlir.import_onnx(parse(text, opset=19), values=weights)


def _arena_bytes(module: IRModule) -> int:
    planned = relax_mlir.lower(module, to="planned")
    (main,) = (f for f in planned.func_ops() if f.name.value == "main")
    return int(main.attributes["relax.arena_bytes"].value)


def _check(module: IRModule, shape: tuple[int, ...], threads: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (actual,) = relax_mlir.compile(module, threads=threads, cache=False)(x)
    (expected,) = reference.run(module, x)
    assert_same_numbers(actual, expected, tolerance=_TOLERANCE)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", _SUMS)
def test_a_residual_is_overwritten_by_its_sum(kind: str, threads: int) -> None:
    sizes = 32, 28, 28
    module = _block(kind, "Add (d, a)", sizes)
    assert _arena_bytes(module) == 2 * 4 * 32 * 28 * 28  # `a` and `b`
    _check(module, (1, *sizes), threads)


def test_so_is_that_of_a_product() -> None:
    text = """g (float[48,64] x, float[64,64] w) => (float[48,64] y) {
        a = Softmax (x)
        b = Softmax (a)
        d = MatMul (b, w)
        e = Add (d, a)
        y = Softmax (e)
    }"""
    weight = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    module = relax_mlir.import_onnx(parse(text, opset=19), values={"w": weight})
    assert _arena_bytes(module) == 2 * 4 * 48 * 64
    _check(module, (48, 64), 2)


@_few
@given(
    st.sampled_from(sorted(_SUMS)),
    st.sampled_from(_MAPS),
    st.tuples(st.integers(1, 40), st.integers(1, 17), st.integers(1, 40)),
    st.sampled_from([1, 2]),
)
def test_whatever_the_sizes(
    kind: str, last: str, sizes: tuple[int, int, int], threads: int
) -> None:
    _check(_block(kind, last, sizes), (1, *sizes), threads)


@_few
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(["Softmax", "Neg"]))
def test_rows_overwrite_what_is_added_to_them(rows: int, size: int, kind: str) -> None:
    text = f"""g (float[{rows},{size}] x, float[{rows},{rows}] u) => (float[{rows},{size}] y) {{
        a = MatMul (u, x)
        b = MatMul (u, a)
        c = {kind} (b)
        d = Add (c, a)
        e = MatMul (u, d)
        f = Tanh (e)
        g = Sub (f, d)
        y = Softmax (g)
    }}"""
    module = relax_mlir.import_onnx(parse(text, opset=19))
    rng = np.random.default_rng(0)
    x, u = (
        rng.standard_normal(shape).astype(np.float32) / np.sqrt(np.float32(rows))
        for shape in ((rows, size), (rows, rows))
    )
    (actual,) = relax_mlir.compile(module, cache=False)(x, u)
    (expected,) = reference.run(module, x, u)
    assert_same_numbers(actual, expected, tolerance=_TOLERANCE)
