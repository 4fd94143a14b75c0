"""The way of a model: read, check, convert if it is old, build."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from mlir import ir

from relax_mlir.dialects import constraints
from relax_mlir.errors import ModelError, PassError, UnsupportedError
from relax_mlir.frontends.onnx.build import GraphBuilder
from relax_mlir.frontends.onnx.functions import Functions
from relax_mlir.frontends.onnx.graph import Graph, check_closed, read_graph
from relax_mlir.frontends.onnx.reading import Model, ModelSource, read_model
from relax_mlir.frontends.onnx.report import OnnxReport, sentence
from relax_mlir.frontends.onnx.signature import InputType, Shapes, input_types
from relax_mlir.frontends.onnx.versions import conversion_target, convert
from relax_mlir.frontends.onnx.weights import Weights
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.size_constraints import set_constraints

__all__ = ["check_onnx", "import_onnx"]


def import_onnx(
    model: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> IRModule:
    """Make a relax module of an ONNX model.

    Its function ``main`` takes the inputs and returns the outputs of the graph. Weights
    are not copied: they are views of the message, or of mapped files of external data.

    Args:
        model: a path, the bytes of a file, or a message, which is not changed.
        shapes: sizes of inputs that the model leaves open or that shall differ; a
            number fixes a size, a string names it or what it is a multiple of, as
            ``32*h``.
        values: inputs that are always the same; ``main`` does not take them any more.

    Raises:
        ModelError: the model cannot be read, or is not valid, or `shapes` or
            `values` do not fit it.
        UnsupportedError: it uses operators without a rule; all of them are named.
    """
    module, report = _import(model, shapes or {}, values or {})
    report.raise_if_bad()
    return module


def check_onnx(
    model: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> OnnxReport:
    """What stands between a model and its import, all at once.

    Args:
        model, shapes, values: as for :func:`import_onnx`.

    Raises:
        ModelError: the model cannot be read, or its graph is not valid.
    """
    return _import(model, shapes or {}, values or {})[1]


def _import(
    source: ModelSource, overrides: Shapes, values: Mapping[str, np.ndarray]
) -> tuple[IRModule, OnnxReport]:
    model = read_model(source)
    report = OnnxReport(model.where, model.opsets)
    try:
        graph, model = _prepared(model)
        types = {n: t for n, t in graph.types.items() if n not in graph.initializers}
        fixed = {name: np.asarray(value) for name, value in values.items()}
        inputs = input_types(types, {**overrides, **_shapes_of(fixed)})
        parameters = _without(inputs, fixed)
        functions = Functions(model.proto.functions)
        module = IRModule.empty()
        builder = GraphBuilder(module, functions, Weights(model.folders), report)
        with constraints.collect() as assumed:
            builder.main(graph, parameters, fixed, model.opsets)
        if assumed and report.is_ok:
            set_constraints(module, assumed)  # rules assume things, too
            with module.context, ir.Location.unknown():
                BindSizes().run(module)
    except ModelError:
        raise
    except NotImplementedError as error:
        raise UnsupportedError(f"{model.where}: {sentence(error)}") from error
    except (ValueError, PassError) as error:
        raise ModelError(f"{model.where}: {sentence(error)}") from error
    return module, report


def _shapes_of(fixed: Mapping[str, np.ndarray]) -> Shapes:
    return {name: array.shape for name, array in fixed.items()}


def _without(
    inputs: Mapping[str, InputType], fixed: Mapping[str, np.ndarray]
) -> dict[str, InputType]:
    """The inputs that are still parameters."""
    for name, array in fixed.items():
        expected = inputs[name][1].numpy
        if array.dtype != expected:
            raise ValueError(
                f"values: `{name}`: expected elements of type {expected}, got "
                f"{array.dtype}"
            )
    return {name: type_ for name, type_ in inputs.items() if name not in fixed}


def _prepared(model: Model) -> tuple[Graph, Model]:
    """The graph, of an opset that our rules reach where that can be had."""
    graph = read_graph(model.proto.graph)
    check_closed(graph)
    if not graph.outputs:
        raise ValueError("the graph has no outputs")
    target = conversion_target(graph, model.opsets)
    if target is None:
        return graph, model
    converted = convert(model, graph, target)
    graph = read_graph(converted.model.proto.graph)
    weights = {**graph.initializers, **converted.constants}
    return replace(graph, initializers=weights), replace(
        converted.model, where=model.where
    )
