"""Conversion of models to float16."""

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

_LARGEST = float(np.finfo(np.float16).max)


def to_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with float16 in place of float32: weights, inputs, outputs and casts.

    Values beyond 65504, such as additive attention masks, saturate.
    """
    converted = onnx.ModelProto()
    converted.CopyFrom(model)
    graph = converted.graph
    for tensor in graph.initializer:
        _narrow(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                _narrow(attribute.t)
            is_cast = node.op_type == "Cast" and attribute.name == "to"
            if is_cast and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.FLOAT16
    return converted


def _narrow(tensor: TensorProto) -> None:
    """Convert a float32 tensor to float16 in place."""
    if tensor.data_type != TensorProto.FLOAT:
        return
    numbers = np.clip(numpy_helper.to_array(tensor), -_LARGEST, _LARGEST)
    tensor.CopyFrom(numpy_helper.from_array(numbers.astype(np.float16), tensor.name))
