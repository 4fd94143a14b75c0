"""ONNX import: read, validate, convert old opsets, and build a module."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.shapes import Dim, Expr, parse, substitute, symbol, symbols_of
from relax_mlir.errors import ModelError, PassError, UnsupportedError
from relax_mlir.frontends.onnx.build import GraphBuilder
from relax_mlir.frontends.onnx.functions import Functions
from relax_mlir.frontends.onnx.graph import Graph, check_closed, read_graph
from relax_mlir.frontends.onnx.reading import (
    Model,
    ModelSource,
    read_model,
    self_contained,
)
from relax_mlir.frontends.onnx.report import OnnxReport, error_sentence
from relax_mlir.frontends.onnx.signature import InputType, Shapes, input_types
from relax_mlir.frontends.onnx.values import GraphValue, constant_value, symbolic_value
from relax_mlir.frontends.onnx.versions import conversion_target, convert_opset
from relax_mlir.frontends.onnx.weights import Weights
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import set_constraints
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.runtime.onnx_source import DeclaredInput, OnnxSource
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.symbolic import constraints
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["Values", "check_onnx", "import_onnx"]

Values: TypeAlias = Mapping[str, "np.ndarray | Sequence[Any]"]  # Any: nested lists


@awaited_at_exit
def import_onnx(
    model: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Values | None = None,
) -> IRModule:
    """Import an ONNX model as a Relax module.

    Its function ``main`` takes the inputs and returns the outputs of the graph. Weights
    are not copied: they are views of the message, or of memory-mapped external data.

    Args:
        model: a path, the bytes of a file, or a message, which is not modified.
        shapes: shapes of inputs, by name, that replace the declared ones; a number is a
            static size, a string a symbolic size or an expression such as ``32*h``.
        values: inputs to fix to constants; they are no longer parameters of ``main``.
            A list may hold symbolic sizes, or expressions in them; if no input has such a
            size in its shape, ``main`` takes a further, empty array at the end, whose
            dimensions after the first give the missing sizes.

    Raises:
        ModelError: the model cannot be read or is not valid, or `shapes` or
            `values` do not match it.
        UnsupportedError: it uses operators without a rule; the message lists all of them.
    """
    module, report = _import(model, shapes or {}, values or {})
    report.raise_if_bad()
    return module


def check_onnx(
    model: ModelSource,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Values | None = None,
) -> OnnxReport:
    """Check whether a model can be imported, and report all problems at once.

    Args:
        model, shapes, values: as for :func:`import_onnx`.

    Raises:
        ModelError: the model cannot be read, or its graph is not valid.
    """
    return _import(model, shapes or {}, values or {})[1]


def _import(
    source: ModelSource, overrides: Shapes, given: Values
) -> tuple[IRModule, OnnxReport]:
    model = read_model(source)
    report = OnnxReport(model.where, model.opsets)
    try:
        graph, model = _prepared(model)
        types = {n: t for n, t in graph.types.items() if n not in graph.initializers}
        fixed = {name: _fixed(name, value) for name, value in given.items()}
        inputs = input_types(types, {**overrides, **_shapes_of(fixed)})
        known = {n: _known(n, a, inputs[n]) for n, a in fixed.items()}
        parameters = _parameters(inputs, known)
        module, assumed = _built(model, graph, parameters, known, report)
        may_stretch = any(assumed.values()) and not known
        if may_stretch and (ones := _forced_to_1(assumed, parameters)):
            fitting = OnnxReport(report.where, report.opsets)
            fixed = _with_sizes(parameters, ones)
            built = _built(model, graph, fixed, known, fitting)
            if fitting.is_ok:
                (module, assumed), report = built, fitting
        if assumed and report.is_ok:
            set_constraints(module, assumed)
            with module.context, ir.Location.unknown():
                BindSizes().run(module)
        if may_stretch and report.is_ok:
            module.source = _source(model, parameters)
    except ModelError:
        raise
    except NotImplementedError as error:
        raise UnsupportedError(f"{model.where}: {error_sentence(error)}") from error
    except (ValueError, PassError) as error:
        raise ModelError(f"{model.where}: {error_sentence(error)}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        kind = type(error).__name__
        raise ModelError(f"{model.where}: {kind}: {error_sentence(error)}") from error
    return module, report


def _built(
    model: Model,
    graph: Graph,
    parameters: Mapping[str, InputType | None],
    known: Mapping[str, GraphValue],
    report: OnnxReport,
) -> tuple[IRModule, Mapping[Constraint, bool]]:
    """The module and its size constraints; True marks those that broadcasts assume."""
    module, functions = IRModule.empty(), Functions(model.proto.functions)
    builder = GraphBuilder(module, functions, Weights(model.folders), report)
    with constraints.collect() as assumed:
        builder.main(graph, parameters, known, model.opsets)
    return module, assumed


def _forced_to_1(
    assumed: Mapping[Constraint, bool], parameters: Mapping[str, InputType | None]
) -> dict[str, Dim]:
    """Symbolic sizes that must be 1, as broadcasts assume contradictory values for them.

    For example ``n``, if [n, n] is broadcast with [3, 5].
    """
    shapes = [type_[0] for type_ in parameters.values() if type_ is not None]
    names = dict.fromkeys(n for shape in shapes for dim in shape for n in _symbols(dim))
    sides = [side for c in assumed for side in c.equality]
    order = list(names | dict.fromkeys(n for side in sides for n in _symbols(side)))
    fitting = [c for c, may_stretch in assumed.items() if not may_stretch]
    if _is_satisfiable(assumed, order) or not _is_satisfiable(fitting, order):
        return {}
    ones: dict[str, Dim] = {}
    for constraint in (c for c, may_stretch in assumed.items() if may_stretch):
        named = names.keys() & set(map(str, constraint.equality))
        if named & ones.keys():
            continue
        fitting.append(constraint)
        if named and not _is_satisfiable(fitting, order):
            one = symbol(min(named))
            ones[str(one)] = 1
            fitting = [c for c in fitting if not assumed[c] or one not in c.equality]
    return ones


def _is_satisfiable(assumed: Iterable[Constraint], order: Sequence[str]) -> bool:
    try:
        constraints.solve(assumed, order)
    except ValueError:
        return False
    return True


def _with_sizes(
    parameters: Mapping[str, InputType | None], values: Mapping[str, Dim]
) -> dict[str, InputType | None]:
    """Parameters with values substituted for symbolic sizes."""
    return {
        name: type_ and (tuple(substitute(dim, values) for dim in type_[0]), type_[1])
        for name, type_ in parameters.items()
    }


def _source(model: Model, types: Mapping[str, InputType | None]) -> OnnxSource | None:
    """The model, to recompile for calls with other broadcasts; None if it is too large."""
    if any(type_ is None for type_ in types.values()):
        return None
    inputs = tuple(
        DeclaredInput(name, type_[1].name, tuple(map(str, type_[0])))
        for name, type_ in types.items()
        if type_ is not None
    )
    data = self_contained(model, list(types))
    return None if data is None else OnnxSource(data, inputs)


def _fixed(name: str, value: "np.ndarray | Sequence[Any]") -> np.ndarray:
    """A fixed input as an array; one with strings or objects as an object array of sizes."""
    array = np.asarray(value)
    if array.dtype.kind not in "UO":
        return array
    elements = np.array(value, dtype=object)
    try:
        flat = [parse(e) if isinstance(e, str) else e for e in elements.flat]
    except ValueError as error:
        raise ValueError(f"values: `{name}`: {error}") from error
    elements.reshape(-1)[:] = flat
    return elements


def _shapes_of(fixed: Mapping[str, np.ndarray]) -> Shapes:
    return {name: array.shape for name, array in fixed.items()}


def _known(name: str, array: np.ndarray, type_: InputType | None) -> GraphValue:
    if type_ is None:
        raise NotImplementedError(
            f"values: `{name}`: expected an input that is a tensor"
        )
    _, dtype = type_
    if array.dtype == object:
        return symbolic_value(name, array, dtype.name)
    if array.dtype != dtype.numpy:
        raise ValueError(
            f"values: `{name}`: expected elements of type {dtype.numpy}, got "
            f"{array.dtype}"
        )
    return constant_value(name, array)


def _parameters(
    inputs: Mapping[str, InputType | None], known: Mapping[str, GraphValue]
) -> dict[str, InputType | None]:
    """The inputs without fixed values, and one for sizes that occur in no input's shape."""
    found = {name: type_ for name, type_ in inputs.items() if name not in known}
    shapes = [type_[0] for type_ in found.values() if type_ is not None]
    bound = {s for shape in shapes for dim in shape for s in _symbols(dim)}
    contents = [v.content for v in known.values() if v.content is not None]
    used = [s for content in contents for dim in content.flat for s in _symbols(dim)]
    missing = [name for name in dict.fromkeys(used) if name not in bound]
    if missing:
        name = "symbolic_value"
        while name in inputs:
            name += "_"
        found[name] = (0, *map(symbol, missing)), dtypes.dtype("uint8")
    return found


def _symbols(dim: Any) -> Sequence[str]:  # Any: sizes, and truth values
    return symbols_of(dim) if isinstance(dim, Expr) else ()


def _prepared(model: Model) -> tuple[Graph, Model]:
    """The graph and the model, converted to an opset that the rules support if possible."""
    graph = read_graph(model.proto.graph)
    check_closed(graph)
    if not graph.outputs:
        raise ValueError("the graph has no outputs")
    target = conversion_target(graph, model.opsets)
    if target is None:
        return graph, model
    converted = convert_opset(model, graph, target)
    graph = read_graph(converted.model.proto.graph)
    weights = {**graph.initializers, **converted.constants}
    return replace(graph, initializers=weights), replace(
        converted.model, where=model.where
    )
