"""Rules for recurrent networks: RNN, GRU and LSTM.

The input projection of all steps is one matmul; the recurrence is one operator, whose
PrimFunc loops over the steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError, onnx_rule
from relax_mlir.dialects.relax.arithmetic import AddOp
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.core import TupleGetItemOp
from relax_mlir.dialects.relax.creation import ZerosOp
from relax_mlir.dialects.relax.elementwise import wide_type
from relax_mlir.dialects.relax.manipulate import PermuteDimsOp, ReshapeOp
from relax_mlir.dialects.relax.matmul import MatmulOp
from relax_mlir.dialects.relax.padding import PadOp
from relax_mlir.dialects.relax.rnn import check_operand_shape
from relax_mlir.dialects.relax.rnn_activations import CELL_FUNCTIONS
from relax_mlir.dialects.relax.rnn_cells import GruOp, LstmOp, RecurrentOp, RnnOp
from relax_mlir.dialects.relax.rnn_program import panel_width
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir.vectors import vector_lanes
from relax_mlir.frontends.onnx.slicing import slice_axis

__all__ = ["Network", "gru", "lstm", "rnn"]

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@onnx_rule("RNN", since=1)
def rnn(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Simple (Elman) recurrent network.

    Source: ONNX RNN-22, and 1-14, which lack types and the layout.
    """
    network = Network.of(node, 1, ("Tanh",))
    x = network.project(_sum_of_biases(network))
    return network.run(RnnOp, [x, network.r, network.state(5)])


@onnx_rule("GRU", since=1)
def gru(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Gated recurrent unit.

    Source: ONNX GRU-22, and 1-14, which lack types and the layout.
    """
    network = Network.of(node, 3, ("Sigmoid", "Tanh"))
    is_linear = node.flag("linear_before_reset", default=False)
    outer, inner = _sum_of_biases(network), network.zeros(network.size)
    biases = network.optional(3)
    if is_linear and biases is not None and outer is not None:
        hidden = 2 * network.size
        own, recurrent = _halves(biases, 3 * network.size)
        inner = slice_axis(recurrent, 1, hidden, hidden + network.size)
        ends = (
            slice_axis(outer, 1, 0, hidden),
            slice_axis(own, 1, hidden, 3 * network.size),
        )
        outer = ConcatOp(list(ends), axis=1).y
    operands = [network.project(outer), network.r, network.state(5), inner]
    return network.run(GruOp, operands, linear_before_reset=is_linear)


@onnx_rule("LSTM", since=1)
def lstm(node: OnnxNode) -> Sequence[ir.Value | None]:
    """Long short-term memory with optional peepholes.

    Source: ONNX LSTM-22, and 1-14, which lack types and the layout.
    """
    network = Network.of(node, 4, ("Sigmoid", "Tanh", "Tanh"))
    peepholes = network.optional(7)
    if peepholes is None:
        peepholes = network.zeros(0)
    else:
        shape = (network.directions, 3 * network.size)
        peepholes = _of_shape("P", peepholes, shape)
    x = network.project(_sum_of_biases(network))
    operands = [x, network.r, network.state(5), network.state(6), peepholes]
    forget = node.flag("input_forget", default=False)
    return network.run(LstmOp, operands, input_forget=forget)


@dataclass(frozen=True)
class Network:
    """A recurrent node with its weights; common to all cells.

    Attributes:
        node: the node.
        gates: the number of gates of its cell.
        functions: the default activation functions.
        element: the element type to compute in.
        w: the input weights, [i, d gates h].
        r: the recurrent weights, packed in column blocks.
        size: h, the number of hidden units.
        direction: forward, reverse or bidirectional.
    """

    node: OnnxNode
    gates: int
    functions: tuple[str, ...]
    element: DType
    w: ir.Value
    r: ir.Value
    size: int
    direction: str

    @staticmethod
    def of(node: OnnxNode, gates: int, functions: tuple[str, ...]) -> "Network":
        """The network of a node with weights [d, gates h, i] and [d, gates h, h].

        Raises:
            ValueError: the shapes of the weights are inconsistent.
        """
        w, r = node.input(1), node.input(2)
        size = _units(node, _shape("R", r, 3)[2])
        directions, inputs = _sizes(node, size)
        for name, value, last in (("W", w, inputs), ("R", r, size)):
            check_operand_shape(
                name, _shape(name, value, 3), (directions, gates * size, last)
            )
        element = wide_type(tensors.dtype_of(node.input(0)))
        transposed_w = PermuteDimsOp(_cast(w, element), axes=(2, 0, 1)).y
        flat = ReshapeOp(transposed_w, shape=(inputs, directions * gates * size)).y
        transposed_r = PermuteDimsOp(_cast(r, element), axes=(0, 2, 1)).y
        width = panel_width(size, vector_lanes(element))
        packed = _packed(transposed_r, directions, gates, size, width)
        direction = node.attr("direction", "forward")
        return Network(node, gates, functions, element, flat, packed, size, direction)

    @property
    def directions(self) -> int:
        """The number of directions."""
        return _DIRECTIONS[self.direction]

    @property
    def is_batch_first(self) -> bool:
        """Whether the batch axis comes before the time and direction axes."""
        return self.node.flag("layout", default=False)

    @property
    def x(self) -> ir.Value:
        """The input sequence X, [t, b, i]."""
        x = _cast(self.node.input(0), self.element)
        return PermuteDimsOp(x, axes=(1, 0, 2)).y if self.is_batch_first else x

    def optional(self, index: int) -> ir.Value | None:
        """An input cast to ``element``; None if it is omitted."""
        value = self.node.optional(index)
        return None if value is None else _cast(value, self.element)

    def zeros(self, size: int) -> ir.Value:
        """A zero vector per direction, [d, size]."""
        return self.node.constant(np.zeros((self.directions, size), self.element.numpy))

    def project(self, biases: ir.Value | None) -> ir.Value:
        """Input projection x W + biases of all steps, [t, b, d, gates h]."""
        x, columns = self.x, self.gates * self.size
        total = MatmulOp(x, self.w).z
        if biases is not None:
            flat = ReshapeOp(biases, shape=(self.directions * columns,)).y
            total = AddOp(total, flat).z
        shape = (*tensors.shape_of(x)[:2], self.directions, columns)
        return ReshapeOp(total, shape=shape).y

    def state(self, index: int) -> ir.Value:
        """An initial state, [d, b, h]; zeros by default."""
        batch = tensors.shape_of(self.node.input(0))[0 if self.is_batch_first else 1]
        shape = (self.directions, batch, self.size)
        state = self.optional(index)
        if state is None:
            if isinstance(batch, int):
                zeros = np.zeros((self.directions, batch, self.size))
                return self.node.constant(zeros.astype(self.element.numpy))
            return ZerosOp(shape=shape, dtype=self.element).y
        _shape(f"input {index}", state, 3)
        if self.is_batch_first:
            state = PermuteDimsOp(state, axes=(1, 0, 2)).y
        return _of_shape(f"input {index}", state, shape)

    def lengths(self) -> ir.Value:
        """Sequence lengths as int32; an empty tensor if all sequences have full length."""
        value, shape = self.node.optional(4), tensors.shape_of(self.node.input(0))
        steps = shape[1 if self.is_batch_first else 0]
        known = self.node.constant_or_none(4)
        is_all = known is not None and set(known.reshape(-1).tolist()) == {steps}
        if value is None or is_all:
            return self.node.constant(np.zeros(0, np.int32))
        return _cast(value, dtype("int32"))

    def run(
        self,
        op: type[RecurrentOp],
        operands: Sequence[ir.Value],
        **attrs: Any,  # Any: see the operators
    ) -> list[ir.Value | None]:
        """The used outputs of the node.

        Directions with different activation functions become separate operators.
        """
        lengths, clip = self.lengths(), self.node.attr("clip", 0.0)
        if clip < 0:
            raise ValueError(f"clip: expected 0 or more, got {clip:g}")
        attrs["clip"] = clip if clip > 0 else None
        first, *others = self._functions()
        if all(other == first for other in others):
            whole = op(*operands, lengths, direction=self.direction, **attrs, **first)
            return [self._output(i, self._part(i, whole.y)) for i in self._outputs]
        halves = []
        for k, functions in enumerate((first, *others)):
            x, *rest = operands
            own = (
                slice_axis(x, 2, k, k + 1),
                *(slice_axis(v, 0, k, k + 1) for v in rest),
            )
            direction = "reverse" if k else "forward"
            half = op(*own, lengths, direction=direction, **attrs, **functions)
            halves.append(half.y)
        return [self._output(i, self._joined(i, halves)) for i in self._outputs]

    @property
    def _outputs(self) -> range:
        return range(len(self.node.wanted))

    def _part(self, index: int, whole: ir.Value) -> ir.Value | None:
        is_wanted = self.node.wanted[index]
        return TupleGetItemOp(whole, index=index).result if is_wanted else None

    def _joined(self, index: int, halves: Sequence[ir.Value]) -> ir.Value | None:
        """One output, concatenated over both directions."""
        if not self.node.wanted[index]:
            return None
        parts = [TupleGetItemOp(half, index=index).result for half in halves]
        return ConcatOp(parts, axis=0 if index else 1).y

    def _output(self, index: int, value: ir.Value | None) -> ir.Value | None:
        """An output in the node's layout and element type."""
        if value is None:
            return None
        if self.is_batch_first:
            axes = (1, 0, 2) if index else (2, 0, 1, 3)
            value = PermuteDimsOp(value, axes=axes).y
        return _cast(value, tensors.dtype_of(self.node.input(0)))

    def _functions(self) -> list[dict[str, Any]]:  # Any: see the operators
        """The activation functions of each direction, as attributes of the operators.

        The lists of alphas and betas have elements only for functions that take them.
        """
        count = len(self.functions)
        names = self.node.attr("activations", []) or self.functions * self.directions
        if len(names) != count * self.directions:
            raise ValueError(
                f"activations: expected {count * self.directions}, got {len(names)}"
            )
        alphas = iter(self.node.attr("activation_alpha", []))
        betas = iter(self.node.attr("activation_beta", []))
        listed = [_function(name.lower(), alphas, betas) for name in names]
        groups = [listed[n : n + count] for n in range(0, len(listed), count)]
        return [
            {
                "functions": " ".join(name for name, _, _ in group),
                "alphas": tuple(alpha for _, alpha, _ in group),
                "betas": tuple(beta for _, _, beta in group),
            }
            for group in groups
        ]


def _units(node: OnnxNode, size: Dim) -> int:
    """The number of hidden units, by the weights or by ``hidden_size``.

    Raises:
        NotKnownError: the weights' shape is symbolic, and ``hidden_size`` is missing.
        ValueError: the two differ.
    """
    hidden = node.attrs.get("hidden_size")
    if isinstance(size, int) and hidden not in (None, size):
        raise ValueError(
            f"`hidden_size` is {hidden}, but the recurrent weights are for {size} units"
        )
    units = size if hidden is None else shapes.unify(size, hidden)
    if not isinstance(units, int):
        raise ValueNotKnownError(
            2,
            f"expected a known number of hidden units, got `{size}`",
            needs_shape_only=True,
        )
    return units


def _sizes(node: OnnxNode, size: int) -> tuple[int, Dim]:
    """The number of directions of a node, and of input features.

    Raises:
        ValueError: the direction is unknown, or there are no hidden units.
    """
    direction = node.attr("direction", "forward")
    if direction not in _DIRECTIONS:
        known = ", ".join(_DIRECTIONS)
        raise ValueError(f"direction: expected one of {known}, got `{direction}`")
    if size == 0:
        raise ValueError("R: expected weights for one unit or more, got none")
    return _DIRECTIONS[direction], _shape("X", node.input(0), 3)[2]


def _packed(
    r: ir.Value, directions: int, gates: int, size: int, width: int
) -> ir.Value:
    """Recurrent weights [d, h, gates h] in column blocks: [d, gates, blocks, h, width]."""
    blocks = -(-size // width)
    value = ReshapeOp(r, shape=(directions, size, gates, size)).y
    if blocks * width != size:
        pad_width = (0, 0) * 3 + (0, blocks * width - size)
        value = PadOp(value, pad_width=pad_width).y
    value = ReshapeOp(value, shape=(directions, size, gates, blocks, width)).y
    return PermuteDimsOp(value, axes=(0, 2, 3, 1, 4)).y


def _function(
    name: str, alphas: Iterator[float], betas: Iterator[float]
) -> tuple[str, float, float]:
    """An activation function and its alpha and beta, 0 for a parameter it does not take."""
    if name not in CELL_FUNCTIONS:
        known = ", ".join(CELL_FUNCTIONS)
        raise ValueError(f"activations: expected names of {known}, got `{name}`")
    function = CELL_FUNCTIONS[name]
    alpha, beta = function.alpha, function.beta
    return (
        name,
        0.0 if alpha is None else next(alphas, alpha),
        0.0 if beta is None else next(betas, beta),
    )


def _sum_of_biases(network: Network) -> ir.Value | None:
    """The sum of input and recurrent biases, [d, gates h]; None without biases."""
    biases, columns = network.optional(3), network.gates * network.size
    if biases is None:
        return None
    check_operand_shape("B", _shape("B", biases, 2), (network.directions, 2 * columns))
    return AddOp(*_halves(biases, columns)).z


def _halves(biases: ir.Value, columns: int) -> tuple[ir.Value, ir.Value]:
    """The input biases and the recurrent biases."""
    return slice_axis(biases, 1, 0, columns), slice_axis(
        biases, 1, columns, 2 * columns
    )


def _shape(name: str, value: ir.Value, rank: int) -> tuple[Dim, ...]:
    """The shape of an input, which must have a given rank.

    Raises:
        ValueError: the rank is wrong.
    """
    shape = tensors.shape_of(value)
    if len(shape) != rank:
        found = shapes.format_shape(shape)
        raise ValueError(f"{name}: expected rank {rank}, got {found}")
    return shape


def _of_shape(name: str, value: ir.Value, shape: Sequence[Dim]) -> ir.Value:
    """An input reshaped to the shape that other inputs imply, if its own is symbolic.

    Raises:
        ValueError: the shapes are known to differ.
    """
    check_operand_shape(name, tensors.shape_of(value), tuple(shape))
    is_declared = tensors.shape_of(value) == tuple(shape)
    return value if is_declared else ReshapeOp(value, shape=shape).y


def _cast(value: ir.Value, type_: DType) -> ir.Value:
    return value if tensors.dtype_of(value) == type_ else AstypeOp(value, dtype=type_).y
