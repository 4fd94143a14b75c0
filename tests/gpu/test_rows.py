"""Row reductions: any row length, and unvectorizable operands."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.testing import assert_same_numbers
from relax_mlir.tvm import relax, te
from tests.gpu.emulated import compiled
from tests.gpu.library_calls import rules_of
from tests.ptx_emulator import emulate

_TARGET = "cuda:sm_90"


def program(
    function: Callable[..., te.Tensor], *parameters: tuple[Sequence[int], str]
) -> IRModule:
    """A module of one tensor expression, with arguments of the given shapes and types."""
    builder = relax.BlockBuilder()
    arguments = [
        relax.Var(f"p{number}", relax.TensorStructInfo(shape, dtype))
        for number, (shape, dtype) in enumerate(parameters)
    ]
    with builder.function("main", arguments):
        made = builder.emit(builder.call_te(function, *arguments))
        builder.emit_func_output(made)
    return builder.get()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(
    ("rows", "length"),
    [(1, 1), (1, 33), (3, 97), (8, 768), (7, 1000), (130, 1025), (1, 5000), (2, 20000)],
)
def test_rows_of_any_length(rows: int, length: int, dtype: str) -> None:
    type_ = f"tensor<{rows}x{length}x{dtype}>"
    module = IRModule.parse(
        f'func.func @main(%x: {type_}) -> {type_} {{ %y = "relax.nn_softmax"(%x) '
        f"{{axis = -1 : i64}} : ({type_}) -> {type_} return %y : {type_} }}"
    )
    x = np.random.default_rng(length).standard_normal((rows, length))
    x = x.astype(np.float32 if dtype == "f32" else np.float16)

    (y,) = emulate(compiled(module, _TARGET), x)

    (expected,) = reference.run(module, x)
    tolerance = 1e-5 if dtype == "f32" else 2e-3
    assert_same_numbers(y, np.asarray(expected), tolerance=tolerance, where="y")


@pytest.mark.parametrize(
    ("length", "rule"),
    [
        (64, "RowReduction"),
        (2048, "RowReduction"),
        (20000, "RowReduction"),
        (35712, "PerStatement"),
    ],
)
def test_rows_that_are_gathered_are_kept_where_they_fit(length: int, rule: str) -> None:
    def softmax(x: te.Tensor, places: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, length), "k")
        power = te.compute(
            (1, length), lambda a, b: te.exp(x[places[a, b]]), name="power"
        )
        total = te.compute((1,), lambda a: te.sum(power[a, k], axis=k), name="total")
        return te.compute((1, length), lambda a, b: power[a, b] / total[a], name="y")

    module = program(softmax, ((100,), "float32"), ((1, length), "int32"))
    rng = np.random.default_rng(length)
    x = rng.standard_normal(100).astype(np.float32)
    places = rng.integers(0, 100, (1, length)).astype(np.int32)

    model = compiled(module, _TARGET)

    (y,) = emulate(model, x, places)

    powers = np.exp(x[places].astype(np.float64))
    np.testing.assert_allclose(y, powers / powers.sum(), rtol=1e-4)
    assert rules_of(model) == [rule]


def test_prefetched_matrices_may_be_read_twice() -> None:
    def function(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 64), "k")
        product = te.compute(
            (1, 64), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="product"
        )
        return te.compute((1, 64), lambda i, j: product[i, j] + w[j, j], name="y")

    module = program(function, ((1, 64), "float32"), ((64, 64), "float32"))
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((rows, 64)).astype(np.float32) for rows in (1, 64))
    model = compiled(module, _TARGET)

    (y,) = emulate(model, x, w)

    np.testing.assert_allclose(y, x @ w.T + np.diag(w), rtol=1e-4, atol=1e-4)
    assert rules_of(model) == ["Gemv"]
