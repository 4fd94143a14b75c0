"""Conversion of f32 models to f64, as the reference for rounding errors."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.baselines.baseline import Case

__all__ = ["in_f64", "outputs_in_f64"]

_F32, _F64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
_OF_F32 = {"Resize": (1, 2)}  # inputs that are always f32
_VALUES = ("value_float", "value_floats")  # attributes of Constant


def outputs_in_f64(case: Case) -> list[np.ndarray]:
    """Outputs of a network computed in f64 from the same weights and inputs, rounded to f32."""
    import relax_mlir

    wide = in_f64(onnx.load(case.model))
    model = relax_mlir.compile(wide.SerializeToString(), cache=False)
    inputs = [_wide(case.inputs[name]) for name in model.input_names]
    pairs = zip(model(*inputs), case.outputs, strict=True)
    return [np.asarray(found).astype(like.dtype) for found, like in pairs]


def in_f64(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with f32 tensors converted to f64, except those that operators require in f32.

    Raises:
        ValueError: a node has a subgraph, or a tensor is needed in both types.
    """
    converted = onnx.ModelProto()
    converted.CopyFrom(model)
    graph = converted.graph
    kept = _kept(graph)
    for tensor in graph.initializer:
        if tensor.name not in kept:
            _widen(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type == _F32 and value.name not in kept:
            kind.elem_type = _F64
    for node in graph.node:
        if not kept.intersection(node.output):
            _widen_attributes(node)
    return converted


def _kept(graph: onnx.GraphProto) -> set[str]:
    """Names of the tensors that stay f32."""
    kept, others = set[str](), set[str]()
    for node in graph.node:
        for number, name in enumerate(node.input):
            (kept if number in _OF_F32.get(node.op_type, ()) else others).add(name)
    kept.discard("")
    if kept & others:
        raise ValueError(f"`{min(kept & others)}`: expected to be read as f32 only")
    return kept


def _widen_attributes(node: onnx.NodeProto) -> None:
    for attribute in _attributes(node):
        if attribute.name == "to" and attribute.i == _F32:
            attribute.i = _F64
        elif attribute.type == onnx.AttributeProto.TENSOR:
            _widen(attribute.t)
        elif node.op_type == "Constant" and attribute.name in _VALUES:
            value = np.array(helper.get_attribute_value(attribute), np.float64)
            attribute.CopyFrom(
                helper.make_attribute("value", numpy_helper.from_array(value))
            )


def _attributes(node: onnx.NodeProto) -> Iterator[onnx.AttributeProto]:
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise ValueError(f"`{node.op_type}`: expected no graph inside of a node")
        yield attribute


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _F32:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array
