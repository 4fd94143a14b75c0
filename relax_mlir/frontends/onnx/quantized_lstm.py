"""Function body of com.microsoft DynamicQuantizeLSTM: an LSTM with 8-bit weights.

Source: onnxruntime, docs/ContribOperators.md, com.microsoft DynamicQuantizeLSTM-1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from relax_mlir.dialects.relax.rnn_activations import CELL_FUNCTIONS

__all__ = ["quantized_lstm_body"]

_OPSET = 21
_INPUTS = (
    *("X", "W", "R", "B", "lengths", "initial_h", "initial_c", "P"),
    *("W_scale", "W_zero", "R_scale", "R_zero"),
)
_BACKWARD: Mapping[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def quantized_lstm_body(
    node: onnx.NodeProto, attributes: Iterable[onnx.AttributeProto]
) -> onnx.FunctionProto:
    """A function of standard operators that computes a DynamicQuantizeLSTM node.

    It quantizes the input once and the hidden state at each step.

    Args:
        node: the node; the body depends on which inputs are omitted.
        attributes: its attributes, with references resolved.

    Raises:
        ValueError: an attribute is invalid.
    """
    attrs = {a.name: helper.get_attribute_value(a) for a in attributes}
    given = {name for name, value in zip(_INPUTS, node.input, strict=False) if value}
    direction = attrs.get("direction", b"forward").decode()
    if direction not in _BACKWARD:
        known = ", ".join(_BACKWARD)
        raise ValueError(f"direction: expected one of {known}, got `{direction}`")
    backward = _BACKWARD[direction]
    nodes = _Nodes()
    x = nodes.add("DynamicQuantizeLinear", "X", count=3)
    functions = _functions(attrs, len(backward))
    parts = [
        _Direction(nodes, given, attrs, number, is_backward, functions[number]).write(x)
        for number, is_backward in enumerate(backward)
    ]
    for name, axis, values in zip(
        ("Y", "Y_h", "Y_c"), (1, 0, 0), zip(*parts, strict=True), strict=True
    ):
        axes = nodes.constant(np.array([axis]))
        unsqueezed = [nodes.add("Unsqueeze", value, axes) for value in values]
        nodes.add("Concat", *unsqueezed, axis=axis, name=name)
    return helper.make_function(
        node.domain,
        node.op_type,
        list(_INPUTS),
        ["Y", "Y_h", "Y_c"],
        nodes.nodes,
        [helper.make_opsetid("", _OPSET)],
    )


class _Nodes:
    """Builder of a node list with generated value names."""

    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix

    def add(
        self, op_type: str, *inputs: str, count: int = 1, name: str = "", **attrs: Any
    ) -> Any:  # Any: a name, or several
        """Add a node, and return the name of its output, or the names of all."""
        number = len(self.nodes)
        names = [name or f"{self._prefix}v{number}_{n}" for n in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attrs))
        return names[0] if count == 1 else names

    def constant(self, array: np.ndarray) -> str:
        """Add a constant."""
        return self.add("Constant", value=numpy_helper.from_array(array))


class _Direction:
    """One direction of the LSTM.

    Args:
        nodes: the builder of the body.
        given: names of the inputs that are present.
        attrs: attributes of the node.
        number: the index of the direction.
        is_backward: whether it runs over the sequence in reverse.
        functions: builders of the cell's three activation functions.
    """

    def __init__(
        self,
        nodes: _Nodes,
        given: set[str],
        attrs: Mapping[str, Any],
        number: int,
        is_backward: bool,
        functions: Sequence[Callable[[_Nodes, str], str]],
    ) -> None:
        self.nodes, self.given, self.attrs = nodes, given, attrs
        self.number, self.is_backward = nodes.constant(np.array(number)), is_backward
        self.prefix = f"d{number}_"
        self.functions = functions

    def own(self, name: str) -> str:
        """The slice of an input that belongs to this direction."""
        return self.nodes.add("Gather", name, self.number, axis=0)

    def write(self, x: Sequence[str]) -> tuple[str, str, str]:
        """Emit the direction for a quantized x (value, scale, zero point); y [t, b, h], h, c."""
        nodes = self.nodes
        p = self._matmul(nodes, x, *map(self.own, ("W", "W_scale", "W_zero")))
        if "B" in self.given:
            pair = nodes.add("Split", self.own("B"), count=2, axis=0, num_outputs=2)
            p = nodes.add("Add", p, nodes.add("Add", *pair))
        states = [self._state(name) for name in ("initial_h", "initial_c")]
        scanned = [p, *([self._mask()] if "lengths" in self.given else [])]
        backward = [int(self.is_backward)]
        h, c, y = nodes.add(
            "Scan",
            *states,
            *scanned,
            count=3,
            body=self._step(),
            num_scan_inputs=len(scanned),
            scan_input_directions=backward * len(scanned),
            scan_output_directions=backward,
        )
        return y, h, c

    def _matmul(
        self, nodes: _Nodes, x: Sequence[str], weight: str, scale: str, zero: str
    ) -> str:
        """Integer matmul of a quantized value and weight, dequantized to f32."""
        values, x_scale, x_zero = x
        total = nodes.add("MatMulInteger", values, weight, x_zero, zero)
        wide = nodes.add("Cast", total, to=onnx.TensorProto.FLOAT)
        return nodes.add("Mul", wide, nodes.add("Mul", x_scale, scale))

    def _state(self, name: str) -> str:
        if name in self.given:
            return self.own(name)
        nodes = self.nodes
        batch = nodes.add("Shape", "X", start=1, end=2)
        units = nodes.add("Shape", "R", start=1, end=2)
        shape = nodes.add("Concat", batch, units, axis=0)
        zero = numpy_helper.from_array(np.zeros(1, np.float32))
        return nodes.add("ConstantOfShape", shape, value=zero)

    def _mask(self) -> str:
        """Mask of the steps within each sequence's length, [t, b]."""
        nodes = self.nodes
        count = nodes.add("Squeeze", nodes.add("Shape", "X", start=0, end=1))
        zero, one = (nodes.constant(np.array(n)) for n in (0, 1))
        steps = nodes.add("Range", zero, count, one)
        last, first = (nodes.constant(np.array([n])) for n in (1, 0))
        wide = nodes.add("Cast", "lengths", to=onnx.TensorProto.INT64)
        column = nodes.add("Unsqueeze", steps, last)
        return nodes.add("Less", column, nodes.add("Unsqueeze", wide, first))

    def _step(self) -> onnx.GraphProto:
        """The Scan body of one step: (h, c, x, mask) to (h, c, y)."""
        outer = [self.own(name) for name in ("R", "R_scale", "R_zero")]
        peepholes = [None] * 3
        if "P" in self.given:
            own = self.own("P")
            peepholes = self.nodes.add("Split", own, count=3, axis=0, num_outputs=3)
        nodes = _Nodes(self.prefix)
        h, c, x, mask = (f"{self.prefix}{name}" for name in ("h", "c", "x", "mask"))
        quantized = nodes.add("DynamicQuantizeLinear", h, count=3)
        gates = nodes.add("Add", x, self._matmul(nodes, quantized, *outer))
        i, o, f, g = nodes.add("Split", gates, count=4, axis=1, num_outputs=4)

        def gate(value: str, state: str, number: int) -> str:
            """A gate with its optional peephole connection."""
            weight = peepholes[number]
            if weight is not None:
                peephole = nodes.add("Mul", weight, state)
                value = nodes.add("Add", value, peephole)
            return first(nodes, self._clipped(nodes, value))

        first, second, third = self.functions
        i = gate(i, c, 0)
        if self.attrs.get("input_forget", 0):
            one = nodes.constant(np.ones((), np.float32))
            f = nodes.add("Sub", one, i)
        else:
            f = gate(f, c, 2)
        new = second(nodes, self._clipped(nodes, g))
        next_c = nodes.add("Add", nodes.add("Mul", f, c), nodes.add("Mul", i, new))
        o = gate(o, next_c, 1)
        next_h = nodes.add("Mul", o, third(nodes, self._clipped(nodes, next_c)))
        y = nodes.add("Identity", next_h)
        names = [h, c, x]
        if "lengths" in self.given:
            names.append(mask)
            has_step = nodes.add("Unsqueeze", mask, nodes.constant(np.array([1])))
            zero = nodes.constant(np.zeros((), np.float32))
            y = nodes.add("Where", has_step, next_h, zero)
            next_h = nodes.add("Where", has_step, next_h, h)
            next_c = nodes.add("Where", has_step, next_c, c)
        return helper.make_graph(
            nodes.nodes,
            f"{self.prefix}step",
            [onnx.ValueInfoProto(name=name) for name in names],
            [onnx.ValueInfoProto(name=name) for name in (next_h, next_c, y)],
        )

    def _clipped(self, nodes: _Nodes, value: str) -> str:
        limit = float(self.attrs.get("clip", 0.0))
        if not limit:
            return value
        ends = (nodes.constant(np.array(n, np.float32)) for n in (-limit, limit))
        return nodes.add("Clip", value, *ends)


def _functions(
    attrs: Mapping[str, Any], directions: int
) -> list[list[Callable[[_Nodes, str], str]]]:
    """Builders of the three activation functions of each direction."""
    names = [name.decode().lower() for name in attrs.get("activations", [])]
    names = names or ["sigmoid", "tanh", "tanh"] * directions
    if len(names) != 3 * directions:
        raise ValueError(
            f"activations: expected {3 * directions} names, got {len(names)}"
        )
    alphas = iter(attrs.get("activation_alpha", []))
    betas = iter(attrs.get("activation_beta", []))
    listed = [_function(name, alphas, betas) for name in names]
    return [listed[n : n + 3] for n in range(0, len(listed), 3)]


# Activation functions that are one ONNX operator, by lower-case name.
_NODES = {
    name.lower(): name
    for name in (
        *("Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Softplus"),
        *("Softsign", "Tanh", "ThresholdedRelu"),
    )
}


def _function(
    name: str, alphas: Iterator[float], betas: Iterator[float]
) -> Callable[[_Nodes, str], str]:
    if name not in CELL_FUNCTIONS:
        known = ", ".join(CELL_FUNCTIONS)
        raise ValueError(f"activations: expected names of {known}, got `{name}`")
    function = CELL_FUNCTIONS[name]
    parameters: dict[str, Any] = {
        key: next(given, default)
        for key, given, default in (
            ("alpha", alphas, function.alpha),
            ("beta", betas, function.beta),
        )
        if default is not None
    }

    def write(nodes: _Nodes, x: str) -> str:
        if name in _NODES:
            return nodes.add(_NODES[name], x, **parameters)
        alpha, beta = (
            nodes.constant(np.array(parameters[key], np.float32))
            for key in ("alpha", "beta")
        )
        if name == "affine":
            return nodes.add("Add", nodes.add("Mul", alpha, x), beta)
        scaled = nodes.add("Tanh", nodes.add("Mul", beta, x))
        return nodes.add("Mul", alpha, scaled)

    return write
