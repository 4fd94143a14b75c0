"""Differential testing of the ONNX importer: models as text, compared with onnxruntime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, parser

from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.frontends.onnx import import_onnx


def parse(text: str, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}, "local" : 1]>'
    return parser.parse_model(header + text)


def expected(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return [np.asarray(output) for output in session.run(None, dict(feeds))]


def assert_same_numbers(
    model: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    tolerance: float = 1e-5,  # f32, sums in another order
    **options: Any,
) -> IRModule:
    """Import a model, compare its numpy reference with onnxruntime, and return the module."""
    module = import_onnx(model, **options)
    module.verify()
    names = [a.value for a in module.func_op("main").attributes["relax.input_names"]]

    actual = reference.run(module, *(feeds[name] for name in names))

    for mine, theirs in zip(actual, expected(model, feeds), strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        scale = max(1.0, float(np.abs(theirs.astype(np.float64)).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * scale)
    return module


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-9, 9, shape).astype(dtype)


def typed_model(
    body: str, opset: int, feeds: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """A model of the nodes of ``body``, with types from inputs and shape inference."""
    if "Split" in body:
        body = body.replace("y =", "y, rest =")
    model = parse(f"g () => () {{ {body} }}", opset)
    for name, array in feeds.items():
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.input.append(
            helper.make_tensor_value_info(name, number, array.shape)
        )
    model.graph.output.append(helper.make_empty_tensor_value_info("y"))
    return onnx.shape_inference.infer_shapes(model)


def model_with(
    body: str,
    feeds: Mapping[str, np.ndarray],
    constants: Sequence[str] = (),
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of the nodes of ``body`` on ``feeds``; ``constants`` are initializers."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    model = parser.parse_model(f"{header} g () => () {{ {body} }}")
    for name, array in feeds.items():
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        value = helper.make_tensor_value_info(name, number, array.shape)
        if name in constants:
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            model.graph.input.append(value)
    for name in outputs:
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
    return model


def run_by_numpy(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """The results of a model by the operators' numpy references."""
    given = [feeds[value.name] for value in model.graph.input]
    return list(reference.run(import_onnx(model), *given))
