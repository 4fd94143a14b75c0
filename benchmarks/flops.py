"""FLOP counts of ONNX models: matmuls, convolutions and recurrent layers.

A multiply-add counts as two. Elementwise operators are excluded, as is customary: they are
a few per cent, and fusion changes their number.
"""

import math
from collections.abc import Callable, Mapping

import onnx
from onnx import helper

from benchmarks.known_sizes import Shapes, fold_sizes

__all__ = ["count_flops"]


def count_flops(model: onnx.ModelProto) -> int:
    """Floating-point operations of one run, from inferred shapes.

    Raises:
        ValueError: a relevant size is symbolic.
    """
    model, shapes = fold_sizes(model)
    return sum(
        _COUNTS[node.op_type](node, shapes)
        for node in model.graph.node
        if node.op_type in _COUNTS
    )


def _shape(node: onnx.NodeProto, name: str, shapes: Shapes) -> tuple[int, ...]:
    if name not in shapes:
        raise ValueError(
            f"node `{node.name or node.output[0]}` ({node.op_type}): shape of `{name}`: expected static sizes, "
            "got symbolic ones. Build the model with static shapes"
        )
    return shapes[name]


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _conv(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Per output element, one filter [channels / groups, *kernel]."""
    filters = _shape(node, node.input[1], shapes)
    return 2 * math.prod(_shape(node, node.output[0], shapes)) * math.prod(filters[1:])


def _conv_transpose(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Per input element, one filter [channels / groups, *kernel]."""
    filters = _shape(node, node.input[1], shapes)
    return 2 * math.prod(_shape(node, node.input[0], shapes)) * math.prod(filters[1:])


def _matmul(node: onnx.NodeProto, shapes: Shapes) -> int:
    k = _shape(node, node.input[0], shapes)[-1]
    return 2 * math.prod(_shape(node, node.output[0], shapes)) * k


def _gemm(node: onnx.NodeProto, shapes: Shapes) -> int:
    axis = 0 if _attribute(node, "transA", 0) else 1
    k = _shape(node, node.input[0], shapes)[axis]
    return 2 * math.prod(_shape(node, node.output[0], shapes)) * k


def _recurrent(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Per step, the input and recurrent matmuls of all gates."""
    steps = math.prod(_shape(node, node.input[0], shapes)[:2])
    weights = (_shape(node, name, shapes) for name in node.input[1:3])
    return 2 * steps * sum(map(math.prod, weights))


_COUNTS: Mapping[str, Callable[[onnx.NodeProto, Shapes], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "MatMul": _matmul,
    "RNN": _recurrent,
}
