"""The nine networks of onnx's backend test suite, with random weights.

The onnx package ships their graphs with all weights 0.02, which gives constant outputs and
hides errors. Here random initializers replace the fills; nodes, names and opset 9 stay as
Caffe2 and Caffe wrote them.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from models.graph import AFTER_RELU
from models.images import synthetic_images

tolerance = 1e-4

# Scales of the last layer's weights, measured once, so that the logits have a standard
# deviation of about 1.5: a softmax that is flat or one-hot would hide errors.
_LAST_LAYER_SCALES = {
    "bvlc_alexnet": 0.56,
    "densenet121": 2.9,
    "inception_v1": 1.1,
    "inception_v2": 0.69,
    "resnet50": 4.4,
    "shufflenet": 0.06,
    "squeezenet": 6.4,
    "vgg19": 0.4,
    "zfnet512": 1.5,
}

NAMES = tuple(_LAST_LAYER_SCALES)

# The role of a weight: the operator that uses it, and the operand index.
_Role = tuple[str, int]


def build(name: str) -> onnx.ModelProto:
    """Build the network `name` of `NAMES`, from an image [1, 3, 224, 224] to 1,000 classes."""
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph = model.graph
    roles = _roles(graph)
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    last = _last_weight(graph)

    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        output = node.output[0]
        value = _random(rng, tuple(known[node.input[0]]), roles[output])
        value *= np.float32(_LAST_LAYER_SCALES[name] if output == last else 1)
        weights.append(numpy_helper.from_array(value, output))
    read = {value for node in nodes for value in node.input}
    for tensor in graph.initializer:
        if tensor.name in read and tensor.data_type == onnx.TensorProto.FLOAT:
            value = _random(rng, tuple(tensor.dims), roles[tensor.name])
            weights.append(numpy_helper.from_array(value, tensor.name))
        elif tensor.name in read:
            weights.append(tensor)

    images = [value for value in graph.input if value.name not in known]
    for field, kept in (("node", nodes), ("initializer", weights), ("input", images)):
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    model.ir_version = (
        4  # IR version 3 requires weights to be inputs, which cannot be folded
    )
    return model


def inputs(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """A synthetic image, under the network's input name."""
    caffe2 = name in ("resnet50", "shufflenet", "zfnet512")
    return {"gpu_0/data_0" if caffe2 else "data_0": synthetic_images(seed, 1)}


def _roles(graph: onnx.GraphProto) -> dict[str, _Role]:
    """The first use of each value, looking through Unsqueeze and Reshape of weights.

    The scale of a BatchNormalization at the end of a residual branch has the role Sum.
    """
    roles: dict[str, _Role] = {}
    for node in reversed(graph.node):
        use = roles.get(node.output[0], ("", 0))
        for index, value in enumerate(node.input):
            match node.op_type, index, use[0]:
                case ("Unsqueeze" | "Reshape", 0, _) | ("BatchNormalization", 1, "Sum"):
                    roles[value] = use
                case _:
                    roles[value] = (node.op_type, index)
    return roles


def _last_weight(graph: onnx.GraphProto) -> str:
    """The output of the ConstantOfShape that fills the weight of the last Conv or Gemm."""
    producers = {value: node for node in graph.node for value in node.output}
    last = [node for node in graph.node if node.op_type in ("Conv", "Gemm")][-1]
    weight = last.input[1]
    while producers[weight].op_type == "Reshape":
        weight = producers[weight].input[0]
    return weight


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], role: _Role
) -> np.ndarray:
    """Random weights for a role: variance-preserving filters, other weights near 0 or 1."""
    value = rng.standard_normal(shape, np.float32)
    match role:
        case ("Conv", 1) if shape[1] <= 3:
            return value * np.float32((2 / np.prod(shape[1:])) ** 0.5)
        case ("Conv", 1):  # centered as in `Graph.conv`
            value -= value.mean((1, 2, 3), keepdims=True)
            return value * np.float32((AFTER_RELU / np.prod(shape[1:])) ** 0.5)
        case ("Gemm", 1):
            value -= value.mean(-1, keepdims=True)
            return value * np.float32((AFTER_RELU / shape[-1]) ** 0.5)
        case ("Sum", _):
            return 0.4 + np.float32(0.04) * value
        case ("BatchNormalization", 1 | 4) | ("Mul", _):
            return 1 + np.float32(0.1) * value
        case _:
            return np.float32(0.1) * value
