"""JIT-compiled methods of modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relax_mlir import nn
from relax_mlir.nn import spec

RNG = np.random.default_rng(0)


class Model(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(3, 2)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.linear(x)

    def both(self, x: Any) -> Any:
        return x[0] + x[1], [x[0] * 2.0]


def with_data(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.data = RNG.uniform(-1, 1, parameter.shape).astype(np.float32)
    return module


PAIR = (spec.Tensor((2,), "float32"), spec.Tensor((2,), "float32"))
SPEC = {"forward": {"x": spec.Tensor(("n", 3), "float32")}, "both": {"x": PAIR}}


@pytest.fixture(scope="module")
def model() -> Any:
    return with_data(Model()).jit(SPEC, out_format="numpy")


@pytest.mark.parametrize("rows", [1, 4])
def test_compiled_method_uses_the_parameters(model: Any, rows: int) -> None:
    x = RNG.uniform(-1, 1, (rows, 3)).astype(np.float32)
    weight, bias = (p.numpy() for p in model.params)

    # rtol: sums of three products in another order
    np.testing.assert_allclose(
        model["forward"](x), x @ weight.T + bias, rtol=1e-5, atol=1e-6
    )


def test_nested_tuples_as_arguments_and_results(model: Any) -> None:
    a, b = np.ones(2, np.float32), np.arange(2, dtype=np.float32)

    total, (twice,) = model["both"]((a, b))

    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(twice, a * 2)


def test_calls_are_checked(model: Any) -> None:
    with pytest.raises(ValueError, match=r"`forwards` is not compiled: .*`forward`"):
        model["forwards"]
    with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
        model["forward"](1, 2)
    with pytest.raises(TypeError, match="argument `x`: expected a tensor, got int"):
        model["forward"](1)


def test_parameters_without_data_cannot_be_run() -> None:
    with pytest.raises(ValueError, match=r"have no data: linear\.weight, linear\.bias"):
        Model().jit(SPEC, out_format="numpy")


def test_output_formats() -> None:
    with pytest.raises(ValueError, match="Unknown out_format: list: expected torch or"):
        with_data(Model()).jit(SPEC, out_format="list")
