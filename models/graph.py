"""Builder of ONNX graphs with random weights from one seeded stream."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

# The IR version released with each opset, as exporters of that time wrote.
_IR_VERSIONS = {13: 7, 17: 8, 18: 8, 21: 10}

# Variance of a unit normal over the variance of its Relu: 1 / (1/2 - 1/(2 pi)).
AFTER_RELU = 2.93

Shape = Sequence[int | str]


class Graph:
    """Builder of a `ModelProto`: nodes, weights, inputs and outputs in call order.

    Nodes are named by their path as exporters do (``layer1/0/conv1/Conv``), and values
    after the node that defines them. Each weight continues the random stream, so a model's
    bytes are reproducible.
    """

    def __init__(self, name: str, *, opset: int = 17, seed: int = 0) -> None:
        """Start an empty graph; `seed` fixes every random weight."""
        self.rng = np.random.default_rng(seed)
        self._name = name
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Shape, dtype: type = np.float32) -> str:
        """Declare a graph input; a string in `shape` is a symbolic size."""
        self._inputs.append(_value_info(name, shape, dtype))
        return name

    def output(self, name: str, value: str, shape: Shape) -> None:
        """Declare the float32 graph output `name`; renames `value`."""
        for node in self._nodes:
            for names in (node.input, node.output):
                for index, old in enumerate(names):
                    names[index] = name if old == value else old
        self._outputs.append(_value_info(name, shape, np.float32))

    def weight(self, name: str, value: np.ndarray) -> str:
        """Add an initializer."""
        self._weights.append(numpy_helper.from_array(value, name))
        return name

    def normal(
        self, name: str, shape: Sequence[int], std: float, mean: float = 0.0
    ) -> str:
        """Add a normally distributed float32 initializer."""
        value = self.rng.standard_normal(shape, np.float32)
        value *= np.float32(std)
        value += np.float32(mean)
        return self.weight(name, value)

    def constant(self, value: np.ndarray | float | list[int]) -> str:
        """Add a Constant node; Python numbers become float32, lists int64."""
        if isinstance(value, list):
            array = np.array(value, np.int64)
        else:
            array = np.asarray(
                value, None if isinstance(value, np.ndarray) else np.float32
            )
        return self.node("Constant", value=numpy_helper.from_array(array))

    def node(self, op: str, *inputs: str, path: str = "", **attributes: object) -> str:
        """Add a node with one output below `path`, and return that output's name."""
        return self._add(op, inputs, 1, path, attributes)[0]

    def split(self, x: str, sizes: list[int], path: str) -> list[str]:
        """Add a Split of the last dimension into parts of `sizes`."""
        inputs = (x, self.constant(sizes))
        return self._add("Split", inputs, len(sizes), path, {"axis": -1})

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        count: int,
        path: str,
        attributes: Mapping[str, object],
    ) -> list[str]:
        """Add a node with `count` outputs, and return their names."""
        name = f"{path}/{op}" if path else f"{op}_{len(self._nodes)}"
        outputs = [f"{name}_output_{number}" for number in range(count)]
        node = helper.make_node(op, inputs, outputs, name)
        node.attribute.extend(
            helper.make_attribute(*pair) for pair in sorted(attributes.items())
        )
        self._nodes.append(node)
        return outputs

    def conv(
        self,
        x: str,
        path: str,
        channels: tuple[int, int],
        kernel: int,
        *,
        stride: int = 1,
        pad: int | None = None,
        groups: int = 1,
        bias: bool = False,
        gain: float = AFTER_RELU,
    ) -> str:
        """Add a Conv with a square kernel from ``channels[0]`` to ``channels[1]`` channels.

        Filters over many channels are centered (sum to zero). Relu outputs are positive,
        so their mean would otherwise grow with the depth until all images look alike;
        trained networks remove it by batch normalization.

        Args:
            x: the input.
            path: the path of the node.
            channels: input and output channels.
            kernel, stride, groups: as of Conv.
            bias: whether to add a bias.
            gain: output variance divided by input variance (mean square for filters that
                are not centered), chosen so that pre-activations have variance 1.
            pad: padding on each side; half the kernel by default.

        Source: He et al., Delving Deep into Rectifiers, 2015; centered as in Qiao et
        al., Weight Standardization, 2019.
        """
        shape = (channels[1], channels[0] // groups, kernel, kernel)
        weight = self.rng.standard_normal(shape, np.float32)
        if shape[1] > 3:
            weight -= weight.mean((1, 2, 3), keepdims=True)
        weight *= np.float32((gain / np.prod(shape[1:])) ** 0.5)
        weights = [self.weight(f"{path}.weight", weight)]
        if bias:
            weights.append(self.normal(f"{path}.bias", shape[:1], 0.1))
        return self.node(
            "Conv",
            x,
            *weights,
            path=path,
            dilations=[1, 1],
            group=groups,
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2 if pad is None else pad] * 4,
            strides=[stride, stride],
        )

    def batch_norm(
        self,
        x: str,
        path: str,
        channels: int,
        *,
        scale: float = 1.0,
        epsilon: float = 1e-5,
    ) -> str:
        """Add an inference BatchNormalization with scales of about `scale`."""
        spread = self.rng.uniform(0.8, 1.2, (2, channels)).astype(np.float32)
        weights = (
            self.weight(f"{path}.weight", spread[0] * np.float32(scale)),
            self.normal(f"{path}.bias", (channels,), 0.1 * scale),
            self.normal(f"{path}.running_mean", (channels,), 0.1),
            self.weight(f"{path}.running_var", spread[1]),
        )
        return self.node("BatchNormalization", x, *weights, path=path, epsilon=epsilon)

    def linear(self, x: str, path: str, sizes: tuple[int, int], *, std: float) -> str:
        """Add a linear layer as exporters write it: a Gemm with an [out, in] weight."""
        weight = self.normal(f"{path}.weight", sizes[::-1], std)
        bias = self.normal(f"{path}.bias", sizes[1:], 0.1)
        return self.node("Gemm", x, weight, bias, path=path, transB=1)

    def model(self) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, self._weights
        )
        return helper.make_model(
            graph,
            producer_name="relax_mlir",
            opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=_IR_VERSIONS[self._opset],
        )


def batch_dim(batch: int | None) -> int | str:
    """The batch dimension: a number, or the symbolic ``batch`` for None."""
    return "batch" if batch is None else batch


def _value_info(name: str, shape: Shape, dtype: type) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, shape)
