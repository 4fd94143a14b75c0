"""All variants of recurrent networks agree with onnxruntime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relax_mlir import compile
from relax_mlir.compiler import reference
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import expected, random

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4, "DynamicQuantizeLSTM": 4}
_OUTPUTS = {"RNN": 2, "GRU": 2, "LSTM": 3, "DynamicQuantizeLSTM": 3}
_TIME, _BATCH, _INPUT = 4, 3, 5


def _model(
    op: str,
    extra: Mapping[int, np.ndarray],
    *,
    size: int = 6,
    outputs: str = "YHC",
    batch: int | str = _BATCH,
    element: int = TensorProto.FLOAT,
    domain: str = "",
    **attrs: Any,  # Any: as many types as attributes
) -> onnx.ModelProto:
    """A node with weights; ``extra`` are constants at other inputs."""
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    columns = _GATES[op] * size
    weights = {
        1: 0.5 * random(directions, columns, _INPUT),
        2: 0.5 * random(directions, columns, size),
        **extra,
    }
    names = [f"i{n}" if n in weights else "" for n in range(1 + max(weights))]
    time = "t" if isinstance(batch, str) else _TIME
    shape = (batch, time, _INPUT) if attrs.get("layout") else (time, batch, _INPUT)
    made = [name if name in outputs else "" for name in "YHC"[: _OUTPUTS[op]]]
    node = helper.make_node(
        op, ["x", *names[1:]], made, domain=domain, hidden_size=size, **attrs
    )
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info(name, element, None) for name in made if name],
        [
            numpy_helper.from_array(
                v.astype(helper.tensor_dtype_to_np_dtype(element))
                if v.dtype == np.float32
                else v,
                f"i{n}",
            )
            for n, v in weights.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _extra(op: str, directions: int = 1, size: int = 6) -> dict[int, np.ndarray]:
    """Every other input: biases, lengths, states, peepholes."""
    columns, state = _GATES[op] * size, (directions, _BATCH, size)
    found = {
        3: random(directions, 2 * columns),
        4: np.array([4, 1, 2], np.int32),
        5: random(*state),
    }
    if op == "LSTM":
        found |= {6: -random(*state), 7: random(directions, 3 * size)}
    return found


def _assert_same(
    model: onnx.ModelProto, x: np.ndarray, tolerance: float = 1e-5
) -> None:
    theirs = expected(model, {"x": x})

    ours = reference.run(import_onnx(model), x)

    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance)


_X = random(_TIME, _BATCH, _INPUT)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("RNN", {}),
        ("GRU", {}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {}),
        ("LSTM", {"input_forget": 1}),
    ],
)
def test_cells_with_all_inputs_in_every_direction(
    op: str, attrs: dict[str, Any], direction: str
) -> None:
    extra = _extra(op, 2 if direction == "bidirectional" else 1)
    if "input_forget" in attrs:
        extra.pop(7)  # onnxruntime takes no peephole for the gate that it leaves out

    _assert_same(_model(op, extra, direction=direction, **attrs), _X)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_inputs_and_outputs_are_optional(op: str) -> None:
    _assert_same(_model(op, {}, outputs="H"), _X)
    _assert_same(_model(op, {}, outputs="Y", size=19), _X)


def test_each_direction_has_its_own_activations() -> None:
    model = _model(
        "RNN",
        {},
        direction="bidirectional",
        activations=["HardSigmoid", "LeakyRelu"],
        activation_alpha=[0.3, 0.1],
        activation_beta=[0.4],
    )

    _assert_same(model, _X)


def test_activation_arguments_are_clipped() -> None:
    _assert_same(_model("GRU", _extra("GRU"), clip=0.4), _X)


@pytest.mark.slow
def test_one_compilation_serves_all_lengths_and_batches() -> None:
    model = _model("LSTM", {3: random(1, 48)}, batch="b")
    compiled = compile(import_onnx(model))

    for time, batch in ((1, 1), (3, 2), (2, 11)):
        x = random(time, batch, _INPUT)
        for mine, theirs in zip(compiled(x), expected(model, {"x": x}), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


def test_batch_first_layout() -> None:
    extra = _extra("LSTM", 2)
    turned = {**extra, **{n: extra[n].swapaxes(0, 1) for n in (5, 6)}}
    plain = _model("LSTM", extra, direction="bidirectional")
    y, h, c = expected(plain, {"x": _X})

    model = _model("LSTM", turned, direction="bidirectional", layout=1)
    ours = reference.run(import_onnx(model), _X.swapaxes(0, 1))

    for mine, theirs in zip(
        ours, (y.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


def test_float16_is_computed_in_float32() -> None:
    theirs = expected(_model("GRU", {}), {"x": _X})
    model = _model("GRU", {}, element=TensorProto.FLOAT16)

    ours = reference.run(import_onnx(model), _X.astype(np.float16))

    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == np.float16
        np.testing.assert_allclose(mine, other, rtol=0, atol=4e-3)  # f16 inputs


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 24])
@pytest.mark.parametrize(
    ("given", "attrs"),
    [
        ({}, {}),
        ({4: np.array([3], np.int32)}, {"direction": "reverse"}),
        ({3: random(2, 48), 7: random(2, 18)}, {"direction": "bidirectional"}),
        ({5: random(1, 1, 6), 6: random(1, 1, 6)}, {"clip": 0.5, "input_forget": 1}),
        (
            {},
            {
                "activations": ["HardSigmoid", "Relu", "ScaledTanh"],
                "activation_alpha": [0.3, 1.5],
                "activation_beta": [0.4, 0.5],
            },
        ),
    ],
)
def test_quantized_lstm_uses_integer_matmuls(
    columns: int, given: dict[int, np.ndarray], attrs: dict[str, Any]
) -> None:
    """x is rounded to 8 bits, and so is the state at each step, all rows together.

    onnxruntime takes as many rows together as it has threads for, so there is one here.
    """
    rng = np.random.default_rng(0)
    count = 2 if attrs.get("direction") == "bidirectional" else 1
    shape = (count,) if columns == 1 else (count, columns)
    extra = {
        **given,
        1: rng.integers(-100, 100, (count, _INPUT, 24)).astype(np.int8),
        2: rng.integers(-100, 100, (count, 6, 24)).astype(np.int8),
        8: rng.uniform(0.004, 0.006, shape).astype(np.float32),
        9: np.zeros(shape, np.int8),
        10: rng.uniform(0.004, 0.006, shape).astype(np.float32),
        11: np.zeros(shape, np.int8),
    }
    model = _model(
        "DynamicQuantizeLSTM", extra, domain="com.microsoft", batch=1, **attrs
    )
    x = random(_TIME, 1, _INPUT)

    results = compile(model)(x)

    for ours, theirs in zip(results, expected(model, {"x": x}), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "extra", "attrs", "message"),
    [
        ("LSTM", {2: random(1, 24, 5)}, {}, "recurrent weights are for 5 units"),
        (
            "GRU",
            {2: random(1, 12, 6)},
            {},
            r"R: expected \[1, 18, 6\], got \[1, 12, 6\]",
        ),
        ("GRU", {}, {"activations": ["Tanh"]}, "activations: expected 2, got 1"),
        ("RNN", {}, {"activations": ["Swish"]}, "got `swish`"),
        ("RNN", {}, {"direction": "sideways"}, "got `sideways`"),
        ("RNN", {3: random(1, 6)}, {}, r"B: expected \[1, 12\], got \[1, 6\]"),
        ("LSTM", {7: random(1, 6)}, {}, r"P: expected \[1, 18\], got \[1, 6\]"),
    ],
)
def test_mismatched_recurrent_operands_are_rejected(
    op: str, extra: dict[int, np.ndarray], attrs: dict[str, Any], message: str
) -> None:
    model = _model(op, extra, **attrs)

    with pytest.raises(ModelError, match=message):
        import_onnx(model)
