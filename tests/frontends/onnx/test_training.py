"""Optimizer updates."""

from typing import Any

import numpy as np
import pytest
from onnx import reference as onnx_reference

from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import random
from tests.frontends.onnx.single_node import node_model

_X, _G, _S = random(3), random(3) * 2, np.abs(random(3))


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize(
    ("operator", "states", "attrs"),
    [
        ("Adagrad", 1, {"decay_factor": 0.1, "norm_coefficient": 0.01}),
        ("Adam", 2, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.02}),
        ("Momentum", 1, {"mode": "nesterov"}),
        ("Momentum", 1, {"mode": "standard"}),
    ],
)
def test_optimizer_step_matches_the_reference(
    operator: str, states: int, attrs: dict[str, Any], count: int
) -> None:
    if operator == "Momentum":
        attrs = {**attrs, "alpha": 0.9, "beta": 0.8, "norm_coefficient": 0.01}
    inputs = [np.array(0.1, np.float32), np.array(count), _X, _G, *[_S] * states]
    name = f"ai.onnx.preview.training::{operator}"
    model, feeds = node_model(name, inputs, 1 + states, **attrs)

    actual = reference.run(import_onnx(model), *feeds.values())

    wanted = onnx_reference.ReferenceEvaluator(model).run(None, feeds)
    for mine, theirs in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-5, atol=1e-6)


def test_optimizer_inputs_come_in_groups() -> None:
    inputs = [np.array(0.1, np.float32), np.array(0), _X, _G]
    model, _ = node_model("ai.onnx.preview.training::Adagrad", inputs)

    with pytest.raises(
        ModelError, match="expected 2 inputs and 3 for each tensor, got 4"
    ):
        import_onnx(model)
