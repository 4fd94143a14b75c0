"""A model for the command line tests, and its reference results."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHIFT = np.linspace(-9, 10, 20, dtype=np.float32)


X = np.linspace(-3, 3, 40, dtype=np.float32).reshape(2, 20)


def shift_model(*operators: str) -> onnx.ModelProto:
    """x plus a constant, and then these operators of one operand."""
    nodes = [helper.make_node("Add", ["x", "shift"], ["v0"], "add")]
    for number, operator in enumerate(operators):
        names = [f"v{number}"], [f"v{number + 1}"]
        nodes.append(helper.make_node(operator, *names, f"{operator}_{number}"))
    nodes[-1].output[0] = "y/out"
    types = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 20])
        for name in ("x", "y/out")
    )
    inputs, outputs = ([t] for t in types)
    weights = [numpy_helper.from_array(SHIFT, "shift")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x + SHIFT, 0)
