"""The way of a model: read, check, convert if it is old, build."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from relax_mlir.dialects import relax  # noqa: F401: its operators register their rules
from relax_mlir.errors import ImportError_, UnsupportedError
from relax_mlir.frontends.onnx.build import GraphBuilder
from relax_mlir.frontends.onnx.functions import Functions
from relax_mlir.frontends.onnx.graph import Graph, check_closed, read_graph
from relax_mlir.frontends.onnx.reading import Model, ModelSource, read_model
from relax_mlir.frontends.onnx.report import OnnxReport, sentence
from relax_mlir.frontends.onnx.signature import Shapes, input_types
from relax_mlir.frontends.onnx.versions import conversion_target, convert
from relax_mlir.frontends.onnx.weights import Weights
from relax_mlir.module import IRModule

__all__ = ["check_onnx", "import_onnx"]


def import_onnx(
    model: ModelSource, *, shapes: Mapping[str, Sequence[int | str]] | None = None
) -> IRModule:
    """Make a relax module of an ONNX model.

    Its function ``main`` takes the inputs and returns the outputs of the graph. Weights
    are not copied: they are views of the message, or of mapped files of external data.

    Args:
        model: a path, the bytes of a file, or a message, which is not changed.
        shapes: sizes of inputs that the model leaves open or that shall differ; a
            number fixes a size, a string names it.

    Raises:
        ImportError_: the model cannot be read, or is not valid.
        UnsupportedError: it uses operators without a rule; all of them are named.
    """
    module, report = _import(model, shapes or {})
    report.raise_if_bad()
    return module


def check_onnx(
    model: ModelSource, *, shapes: Mapping[str, Sequence[int | str]] | None = None
) -> OnnxReport:
    """What stands between a model and its import, all at once.

    Args:
        model, shapes: as for :func:`import_onnx`.

    Raises:
        ImportError_: the model cannot be read, or its graph is not valid.
    """
    return _import(model, shapes or {})[1]


def _import(source: ModelSource, overrides: Shapes) -> tuple[IRModule, OnnxReport]:
    model = read_model(source)
    report = OnnxReport(model.where, model.opsets)
    try:
        graph, model = _prepared(model)
        types = {n: t for n, t in graph.types.items() if n not in graph.initializers}
        inputs = input_types(types, overrides)
        functions = Functions(model.proto.functions)
        module = IRModule.empty()
        builder = GraphBuilder(module, functions, Weights(model.folders), report)
        builder.main(graph, inputs, model.opsets)
    except (ImportError_, RecursionError):
        raise
    except NotImplementedError as error:
        raise UnsupportedError(f"{model.where}: {sentence(error)}") from error
    except ValueError as error:
        raise ImportError_(f"{model.where}: {sentence(error)}") from error
    return module, report


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

