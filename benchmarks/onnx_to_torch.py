"""Translation of the benchmark models from ONNX to torch modules.

A rule maps a node to a function of its tensors, or to a module if torch stores the weights
in another format. Shape computations are folded first.
"""

import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.known_sizes import fold_sizes

__all__ = ["to_torch"]

# Any: torch is an optional dependency. Tensors and modules below are torch's.
torch: Any = import_module("torch")
F: Any = torch.nn.functional

Function = Callable[..., Any]


def to_torch(source: str | os.PathLike[str] | onnx.ModelProto) -> Any:
    """Translate a model to a module from tensors, ordered by ``input_names``, to a tuple.

    Raises:
        NotImplementedError: an operator or an attribute value is not supported.
    """
    is_model = isinstance(source, onnx.ModelProto)
    model, _ = fold_sizes(source if is_model else onnx.load(source))
    return _Graph(model).eval()


@dataclass(frozen=True)
class _Node:
    """A node with accessors.

    Attributes:
        proto: the message.
        arrays: the model's initializers by name.
        opset: the model's opset.
    """

    proto: onnx.NodeProto
    arrays: dict[str, np.ndarray]
    opset: int

    def attr(self, name: str, default: Any = None) -> Any:  # Any: as ONNX has it
        found = [a for a in self.proto.attribute if a.name == name]
        return helper.get_attribute_value(found[0]) if found else default

    def has(self, number: int) -> bool:
        return number < len(self.proto.input) and bool(self.proto.input[number])

    def known(self, number: int) -> np.ndarray:
        """An operand that must be constant."""
        name = self.proto.input[number]
        if name not in self.arrays:
            raise self.error(f"operand {number}: expected a constant, got a tensor")
        return self.arrays[name]

    def numbers(self, attribute: str, operand: int) -> list[int]:
        """Integers that are an operand, or an attribute in old opsets."""
        if self.has(operand):
            return self.known(operand).tolist()
        return list(self.attr(attribute))

    def error(self, what: str) -> NotImplementedError:
        name = self.proto.name or self.proto.output[0]
        return NotImplementedError(
            f"node `{name}` ({self.proto.op_type}): {what}. Write a rule in "
            "benchmarks/onnx_to_torch.py"
        )


_RULES: dict[str, tuple[Callable[[_Node], Function], int | None]] = {}


def _rule(
    *names: str, tensors: int | None = None
) -> Callable[[Callable[[_Node], Function]], Callable[[_Node], Function]]:
    """Decorator that registers a rule; ``tensors``: operands of its function, None for all."""

    def register(rule: Callable[[_Node], Function]) -> Callable[[_Node], Function]:
        _RULES.update(dict.fromkeys(names, (rule, tensors)))
        return rule

    return register


class _Graph(torch.nn.Module):
    """Module that runs the functions of all nodes in order.

    Attributes:
        input_names: the model's inputs, in order.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        graph = model.graph
        self.opset = next(o.version for o in model.opset_import if not o.domain)
        self.arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.input_names = [v.name for v in graph.input if v.name not in self.arrays]
        self.output_names = [value.name for value in graph.output]
        self.weights = torch.nn.ParameterList()
        self.indices: dict[str, int] = {}
        self.modules_of_nodes = torch.nn.ModuleList()
        self.steps = [self._step(proto) for proto in graph.node]
        self.arrays = {}

    def _step(
        self, proto: onnx.NodeProto
    ) -> tuple[Function, list[Any], list[str]]:  # Any: names, numbers, None
        node = _Node(proto, self.arrays, self.opset)
        if proto.op_type not in _RULES:
            raise node.error("no rule for it")
        rule, tensors = _RULES[proto.op_type]
        function = rule(node)
        if isinstance(function, torch.nn.Module):
            self.modules_of_nodes.append(function)
        operands = list(map(self._operand, proto.input[:tensors]))
        return function, operands, list(proto.output)

    def _operand(self, name: str) -> Any:  # Any: a name, a number, None
        """The name of a tensor operand, or the value of a scalar constant."""
        array = self.arrays.get(name)
        if array is None:
            return name or None
        if array.ndim == 0 and array.dtype == np.float32:
            return float(array)
        if name not in self.indices:
            self.indices[name] = len(self.weights)
            tensor = torch.from_numpy(np.array(array))  # a copy that can be written
            self.weights.append(torch.nn.Parameter(tensor, requires_grad=False))
        return name

    def forward(self, *inputs: Any) -> Any:  # Any: tensors
        values = dict(zip(self.input_names, inputs, strict=True))
        values.update({name: self.weights[n] for name, n in self.indices.items()})
        for function, operands, names in self.steps:
            given = [values[o] if isinstance(o, str) else o for o in operands]
            results = function(*given)
            results = results if isinstance(results, tuple | list) else [results]
            values.update(zip(names, results, strict=False))
        return tuple(values[name] for name in self.output_names)


_SIMPLE: dict[str, Function] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "Sum": lambda *parts: sum(parts[1:], parts[0]),
    "Relu": torch.relu,
    "Tanh": torch.tanh,
    "Erf": torch.erf,
    "MatMul": torch.matmul,
    "Where": torch.where,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
}
_RULES.update({name: (lambda _, f=f: f, None) for name, f in _SIMPLE.items()})


@_rule("Dropout", tensors=1)
def _dropout(node: _Node) -> Function:
    return lambda x: x


@_rule("Concat")
def _concat(node: _Node) -> Function:
    axis = node.attr("axis")
    return lambda *parts: torch.cat(parts, axis)


@_rule("Flatten")
def _flatten(node: _Node) -> Function:
    if node.attr("axis", 1) != 1:
        raise node.error(f"attribute `axis`: expected 1, got {node.attr('axis')}")
    return lambda x: torch.flatten(x, 1)


@_rule("Reshape", tensors=1)
def _reshape(node: _Node) -> Function:
    sizes = node.known(1).tolist()

    def reshape(x: Any) -> Any:  # Any: a tensor
        kept = [x.shape[n] if size == 0 else size for n, size in enumerate(sizes)]
        return x.reshape(kept)

    return reshape


@_rule("Transpose")
def _transpose(node: _Node) -> Function:
    order = list(node.attr("perm"))
    return lambda x: x.permute(order)


@_rule("Squeeze", "Unsqueeze", tensors=1)
def _squeeze(node: _Node) -> Function:
    (axis,) = node.numbers("axes", 1)
    if node.proto.op_type == "Squeeze":
        return lambda x: x.squeeze(axis)
    return lambda x: x.unsqueeze(axis)


@_rule("Gather")
def _gather(node: _Node) -> Function:
    if node.attr("axis", 0) != 0:
        raise node.error(f"attribute `axis`: expected 0, got {node.attr('axis')}")
    return lambda table, rows: F.embedding(rows, table)


@_rule("Split", tensors=1)
def _split(node: _Node) -> Function:
    sizes, axis = node.numbers("split", 1), node.attr("axis", 0)
    return lambda x: torch.split(x, sizes, axis)


@_rule("Trilu", tensors=1)
def _trilu(node: _Node) -> Function:
    diagonal = int(node.known(1)) if node.has(1) else 0
    function = torch.triu if node.attr("upper", 1) else torch.tril
    return lambda x: function(x, diagonal)


@_rule("Cast")
def _cast(node: _Node) -> Function:
    dtype = helper.tensor_dtype_to_np_dtype(node.attr("to"))
    target = torch.from_numpy(np.empty(0, dtype)).dtype
    return lambda x: x.to(target)


@_rule("Clip", tensors=1)
def _clip(node: _Node) -> Function:
    low, high = (
        float(node.known(number)) if node.has(number) else node.attr(name)
        for number, name in ((1, "min"), (2, "max"))
    )
    return lambda x: torch.clamp(x, low, high)


@_rule("Softmax")
def _softmax(node: _Node) -> Function:
    """Before opset 13 the dimensions from the axis on are flattened."""
    if node.opset >= 13:
        axis = node.attr("axis", -1)
        return lambda x: torch.softmax(x, axis)
    first = node.attr("axis", 1)
    return lambda x: torch.softmax(x.flatten(first), -1).reshape(x.shape)


@_rule("LayerNormalization")
def _layer_norm(node: _Node) -> Function:
    axis, epsilon = node.attr("axis", -1), node.attr("epsilon", 1e-5)

    def layer_norm(x: Any, *weights: Any) -> Any:  # Any: tensors
        return F.layer_norm(x, x.shape[axis:], *weights, eps=epsilon)

    return layer_norm


@_rule("BatchNormalization")
def _batch_norm(node: _Node) -> Function:
    epsilon = node.attr("epsilon", 1e-5)
    return lambda x, scale, bias, mean, variance: F.batch_norm(
        x, mean, variance, scale, bias, eps=epsilon
    )


@_rule("LRN")
def _lrn(node: _Node) -> Function:
    size, bias = node.attr("size"), node.attr("bias", 1.0)
    alpha, beta = node.attr("alpha", 1e-4), node.attr("beta", 0.75)
    return lambda x: F.local_response_norm(x, size, alpha, beta, bias)


@_rule("Gemm")
def _gemm(node: _Node) -> Function:
    scales = (node.attr("alpha", 1.0), node.attr("beta", 1.0))
    if scales != (1.0, 1.0) or node.attr("transA", 0):
        raise node.error("expected no scales and no transposed first operand")
    if node.attr("transB", 0):
        return F.linear
    return lambda x, weight, bias=0.0: torch.matmul(x, weight) + bias


@_rule("Conv")
def _conv(node: _Node) -> Function:
    before, padding = _padding(node, 0.0)
    options = _window(node) | {"groups": node.attr("group", 1)}
    return lambda x, *weights: F.conv2d(before(x), *weights, padding=padding, **options)


@_rule("ConvTranspose")
def _conv_transpose(node: _Node) -> Function:
    if any(node.attr("pads", [0])) or node.attr("output_shape"):
        raise node.error("expected no pads and no `output_shape`")
    options = _window(node) | {"groups": node.attr("group", 1)}
    return lambda x, *weights: F.conv_transpose2d(x, *weights, **options)


@_rule("MaxPool")
def _max_pool(node: _Node) -> Function:
    before, padding = _padding(node, -float("inf"))
    options = _window(node) | {"ceil_mode": bool(node.attr("ceil_mode", 0))}
    kernel = list(node.attr("kernel_shape"))
    return lambda x: F.max_pool2d(before(x), kernel, padding=padding, **options)


@_rule("AveragePool")
def _average_pool(node: _Node) -> Function:
    kernel, pads = list(node.attr("kernel_shape")), list(node.attr("pads", [0] * 4))
    counts_pads = bool(node.attr("count_include_pad", 0))
    before, padding = _padding(node, 0.0)
    options = {
        "stride": list(node.attr("strides", [1, 1])),
        "padding": padding,
        "ceil_mode": bool(node.attr("ceil_mode", 0)),
        "count_include_pad": counts_pads,
    }

    def average(x: Any) -> Any:  # Any: tensors
        return F.avg_pool2d(before(x), kernel, **options)

    if counts_pads or pads[:2] == pads[2:]:
        return average
    return lambda x: average(x) / average(torch.ones_like(x[:1, :1]))


def _window(node: _Node) -> dict[str, Any]:  # Any: options of torch
    return {
        "stride": list(node.attr("strides", [1, 1])),
        "dilation": list(node.attr("dilations", [1, 1])),
    }


def _padding(node: _Node, value: float) -> tuple[Function, list[int]]:
    """A function that pads asymmetrically, and the symmetric padding for torch's operator."""
    if node.attr("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise node.error("attribute `auto_pad`: expected numbers in `pads`")
    top, left, bottom, right = node.attr("pads", [0] * 4)
    if (top, left) == (bottom, right):
        return lambda x: x, [top, left]
    sides = (left, right, top, bottom)
    return lambda x: F.pad(x, sides, value=value), [0, 0]


# Index of each of torch's gates among ONNX's.
_GATES: dict[str, Sequence[int]] = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}


@_rule("LSTM", "GRU", tensors=1)
def _recurrent(node: _Node) -> Function:
    """A torch layer, with weights in torch's gate order."""
    op, hidden = node.proto.op_type, node.attr("hidden_size")
    is_plain = node.attr("direction", b"forward") == b"forward" and not node.has(4)
    if not is_plain or (op == "GRU" and not node.attr("linear_before_reset", 0)):
        raise node.error(
            "expected a forward layer with zero initial state and torch's GRU variant"
        )
    weights, states, bias = (node.known(number)[0] for number in (1, 2, 3))
    layer = getattr(torch.nn, op)(weights.shape[1], hidden)
    parts = (weights, states, *np.split(bias, 2))
    for parameter, part in zip(layer.parameters(), parts, strict=True):
        gates = np.split(part, len(_GATES[op]))
        ordered = np.concatenate([gates[n] for n in _GATES[op]])
        parameter.data = torch.from_numpy(ordered)
    return _Recurrent(layer)


class _Recurrent(torch.nn.Module):
    """A recurrent layer with output [steps, 1, batch, hidden]."""

    def __init__(self, layer: Any) -> None:  # Any: a module
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:  # Any: tensors
        return self.layer(x)[0].unsqueeze(1)
