"""In-register transposes, with fused elementwise operations, of all shapes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir import compile, import_onnx
from relax_mlir.compiler.driver import target_of
from relax_mlir.runtime.executable import Executable
from tests.frontends.onnx.differential import parse
from tests.helpers.searching import examples

_few = settings(max_examples=8)
_many = examples(25)


def compiled(text: str, bits: int = 0) -> Executable:
    target = target_of({0: "cpu", 256: "cpu:x86-64-v3"}[bits])
    model = compile(import_onnx(parse(text, opset=17)), target=target, cache=False)
    assert isinstance(model, Executable)
    return model


def rules(model: Executable) -> list[str]:
    return [kernel.rule for kernel in model.kernels]


def drawn(*shape: int) -> np.ndarray:
    size = int(np.prod(shape))
    return np.random.default_rng(size).standard_normal(shape).astype(np.float32)


def check_transpose(shape: tuple[int, ...], axes: tuple[int, ...], bits: int) -> None:
    sizes, order = ", ".join(map(str, shape)), ", ".join(map(str, axes))
    outer = ", ".join(str(shape[axis]) for axis in axes)
    text = f"""g (float[{sizes}] x) => (float[{outer}] y) {{
        y = Transpose <perm = [{order}]> (x) }}"""
    x = drawn(*shape)
    (y,) = compiled(text, bits)(x)
    np.testing.assert_array_equal(y, x.transpose(axes))


transposes = st.lists(st.integers(1, 40), min_size=2, max_size=4).flatmap(
    lambda shape: st.tuples(
        st.just(tuple(shape)), st.permutations(range(len(shape))).map(tuple)
    )
)


@_few
@given(transposes, st.sampled_from([0, 256]))
def test_transposes(case: tuple[tuple[int, ...], tuple[int, ...]], bits: int) -> None:
    check_transpose(*case, bits)


@pytest.mark.slow
@_many
@given(transposes, st.sampled_from([0, 256]))
def test_random_transposes(
    case: tuple[tuple[int, ...], tuple[int, ...]], bits: int
) -> None:
    check_transpose(*case, bits)


def test_dynamic_sizes() -> None:
    text = """g (float[n, m] x, float[m, 1] b) => (float[m, n] z) {
        y = Transpose (x)
        z = Add (y, b) }"""
    model = compiled(text)
    assert rules(model) == ["Transpose"]
    for n, m in ((1, 1), (3, 50), (16, 16), (33, 17), (0, 5), (15, 64)):
        x, b = drawn(n, m), drawn(m, 1)
        (z,) = model(x, b)
        np.testing.assert_array_equal(z, x.T + b)


def test_elementwise_operations_are_fused() -> None:
    text = """g (float[20, 37] x, float[37, 20] y, float[20] b) => (float[37, 20] z) {
        t = Transpose (x)
        s = Add (t, y)
        u = Mul (s, b)
        z = Relu (u) }"""
    model = compiled(text)
    assert rules(model) == ["Transpose"]
    x, y, b = drawn(20, 37), drawn(37, 20), drawn(20)
    (z,) = model(x, y, b)
    np.testing.assert_array_equal(z, np.maximum((x.T + y) * b, 0))


def test_doubles_and_integers() -> None:
    for name, dtype in (("double", "f8"), ("int64", "i8"), ("int32", "i4")):
        text = f"""g ({name}[19, 21] x) => ({name}[21, 19] y) {{ y = Transpose (x) }}"""
        model = compiled(text)
        x = np.arange(19 * 21).reshape(19, 21).astype(dtype)
        np.testing.assert_array_equal(model(x)[0], x.T)
        assert rules(model) == ["Transpose"]


def test_narrow_transposes_are_row_wise() -> None:
    model = compiled(
        """g (float[3, 100] x) => (float[100, 3] y) { y = Transpose (x) }"""
    )
    assert rules(model) == ["RowWise"]
