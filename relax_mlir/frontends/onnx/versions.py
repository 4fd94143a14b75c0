"""Conversion of old opsets by onnx's version converter, for operators without rules."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx
from onnx import (
    AttributeProto,
    TensorProto,
    checker,
    shape_inference,
    version_converter,
)
from onnx.defs import onnx_opset_version

from relax_mlir.dialects.op_interface import find_onnx_rule, onnx_operators
from relax_mlir.errors import ModelError, UnsupportedError
from relax_mlir.frontends.onnx.graph import Graph, Node, walk_nodes
from relax_mlir.frontends.onnx.reading import Model
from relax_mlir.frontends.onnx.report import error_sentence
from relax_mlir.frontends.onnx.schemas import check_node, find_schema

__all__ = ["Converted", "conversion_target", "convert_opset"]

_SMALL_BYTES = 1024  # the converter's adapters read small constants, such as axes


@dataclass(frozen=True)
class Converted:
    """A model converted to another opset, without its large constants.

    Attributes:
        model: the converted model.
        constants: the large constants by name, which are inputs of ``model``.
    """

    model: Model
    constants: Mapping[str, onnx.TensorProto]


def conversion_target(graph: Graph, opsets: Mapping[str, int]) -> int | None:
    """The first opset at which all nodes have rules or bodies; None if no conversion is needed.

    Rules for the model's own opset are preferred, because the converter drops names and
    lacks some adapters.
    """
    if "" not in opsets:
        return None
    opset = opsets[""]
    starts = [_start(node, opset) for node in walk_nodes(graph) if not node.domain]
    target = max(starts, default=opset)
    return target if target > opset else None


def _start(node: Node, opset: int) -> int:
    """The first opset from ``opset`` on that has a rule or body for a node; else ``opset``."""
    has_rule = find_onnx_rule(node.op_type, opset) is not None
    if has_rule or find_schema(node.op_type, opset) is None:
        return opset
    starts = [*onnx_operators().get(node.op_type, ()), *_bodies(node.op_type, opset)]
    if any(start <= opset for start in starts):  # a body; a rule would have been found
        return opset
    return min(starts, default=opset)


def _bodies(op_type: str, opset: int) -> list[int]:
    """The opsets for which the standard defines a function body of an operator."""
    found: list[int] = []
    for version in {opset, onnx_opset_version()}:
        schema = find_schema(op_type, version)
        if schema is not None:
            found += schema.function_opset_versions
            found += schema.context_dependent_function_opset_versions
    return found


def convert_opset(model: Model, graph: Graph, target: int) -> Converted:
    """Convert a model to opset ``target`` of ai.onnx.

    The checker and the converter run on a skeleton without large constants.

    Args:
        model: the model.
        graph: its graph.
        target: an opset newer than the model's.

    Raises:
        ModelError: the model is invalid.
        UnsupportedError: the converter fails.
    """
    _check_nodes(model, graph)
    skeleton, constants = _skeleton(model.proto, graph)
    failure = (
        f"{model.where}: cannot be converted from opset {model.opsets['']} to {target}, "
        "where rules for all operators start: "
    )
    try:
        checker.check_model(skeleton)
    except (checker.ValidationError, RuntimeError, ValueError) as error:
        raise ModelError(f"{failure}{_first_line(error)}. {_hint(target)}") from error
    try:
        inferred = shape_inference.infer_shapes(skeleton)
        proto = version_converter.convert_version(inferred, target)
    except (
        shape_inference.InferenceError,
        version_converter.ConvertError,
        RuntimeError,  # a failed assertion in C++
        ValueError,
    ) as error:
        raise UnsupportedError(
            f"{failure}{_first_line(error)}. {_hint(target)}"
        ) from error
    opsets = {**model.opsets, "": target}
    return Converted(Model(proto, model.where, model.folders, opsets), constants)


def _hint(target: int) -> str:
    return (
        "Hint: give every input and output of the graph a shape, or export the model "
        f"with opset {target} or a newer one"
    )


def _check_nodes(model: Model, graph: Graph) -> None:
    """Validate the nodes; unlike the checker's, the error names the node."""
    node = None
    try:
        for node in walk_nodes(graph):
            check_node(node, model.opsets.get(node.domain, 0))
    except ValueError as error:
        raise ModelError(f"{model.where}: {node}: {error_sentence(error)}") from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def _skeleton(
    proto: onnx.ModelProto, order: Graph
) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """The model with inputs in place of large constants, and those constants."""
    old = proto.graph
    constants = {t.name: t for t in old.initializer if _is_large(t)}
    kept = []
    for node in order.nodes:
        tensor = _large_constant(node.proto)
        if tensor is None:
            kept.append(node.proto)
        else:
            constants[node.outputs[0]] = tensor
    skeleton = onnx.ModelProto(ir_version=proto.ir_version, graph=onnx.GraphProto())
    skeleton.opset_import.extend(proto.opset_import)
    graph = skeleton.graph
    graph.name = old.name or "graph"
    graph.node.extend(kept)
    graph.input.extend(old.input)
    graph.output.extend(old.output)
    graph.value_info.extend(old.value_info)
    graph.initializer.extend(t for t in old.initializer if t.name not in constants)
    declared = {value.name for value in old.input}
    graph.input.extend(_value_infos(constants, declared))
    return skeleton, constants


def _value_infos(
    constants: Mapping[str, onnx.TensorProto], declared: set[str]
) -> Iterable[onnx.ValueInfoProto]:
    for name, tensor in constants.items():
        if name not in declared:
            yield onnx.helper.make_tensor_value_info(
                name, tensor.data_type, list(tensor.dims)
            )


def _is_large(tensor: onnx.TensorProto) -> bool:
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    return math.prod(tensor.dims) * 4 > _SMALL_BYTES


def _large_constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    for attribute in node.attribute:
        is_tensor = attribute.type == AttributeProto.TENSOR
        if is_tensor and len(node.output) == 1 and _is_large(attribute.t):
            return attribute.t
    return None
