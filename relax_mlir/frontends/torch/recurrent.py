"""Rules for recurrent networks; a layer is one operator, which loops over the steps."""

from collections.abc import Sequence

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.rnn_program import panel_width
from relax_mlir.dialects.tir.vectors import vector_lanes
from relax_mlir.frontends.torch.movement import slice_axis
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []

# Index of each of our gates among torch's.
_LSTM_GATES = (
    0,
    3,
    1,
    2,
)  # input, output, forget, cell from input, forget, cell, output
_GRU_GATES = (1, 0, 2)  # update, reset, new from reset, update, new


@torch_rule("aten.lstm.input")
def lstm(node: TorchNode) -> list[Expr]:
    """Stacked LSTM layers."""
    layers = _Layers(node, _LSTM_GATES)
    hidden, cells = node.tensors("hx")
    x, last, last_cells = layers.input(), [], []
    for number in range(layers.count):
        peepholes = op.zeros((layers.directions, 0), node.dtype)
        results = op.nn.lstm(
            layers.projected(x, number, layers.biases(number)),
            layers.recurrent(number),
            layers.state(hidden, number),
            layers.state(cells, number),
            peepholes,
            layers.lengths(),
            direction=layers.direction,
        )
        y, state, cell = node.parts(results, 3)
        last.append(state)
        last_cells.append(cell)
        x = layers.merged(y)
    return [layers.output(x), _stacked(last), _stacked(last_cells)]


@torch_rule("aten.gru.input")
def gru(node: TorchNode) -> list[Expr]:
    """Stacked GRU layers."""
    layers = _Layers(node, _GRU_GATES)
    x, last = layers.input(), []
    for number in range(layers.count):
        outer, inner = layers.gru_biases(number)
        results = op.nn.gru(
            layers.projected(x, number, outer),
            layers.recurrent(number),
            layers.state(node.tensor("hx"), number),
            inner,
            layers.lengths(),
            direction=layers.direction,
            linear_before_reset=True,
        )
        y, state = node.parts(results, 2)
        last.append(state)
        x = layers.merged(y)
    return [layers.output(x), _stacked(last)]


@torch_rule("aten.rnn_tanh.input", "aten.rnn_relu.input")
def rnn(node: TorchNode) -> list[Expr]:
    """Stacked simple recurrent layers."""
    function = "tanh" if "tanh" in node.fx_node.target.__name__ else "relu"
    layers = _Layers(node, (0,))
    x, last = layers.input(), []
    for number in range(layers.count):
        results = op.nn.rnn(
            layers.projected(x, number, layers.biases(number)),
            layers.recurrent(number),
            layers.state(node.tensor("hx"), number),
            layers.lengths(),
            direction=layers.direction,
            functions=function,
        )
        y, state = node.parts(results, 2)
        last.append(state)
        x = layers.merged(y)
    return [layers.output(x), _stacked(last)]


def _stacked(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else op.concat(list(parts), 0)


class _Layers:
    """The layers of a recurrent call; common to all cells.

    Args:
        node: the call.
        gates: the index of each of our gates among torch's.
    """

    def __init__(self, node: TorchNode, gates: Sequence[int]) -> None:
        if node.attr("train") and node.attr("dropout"):
            raise NotImplementedError(
                "dropout in training: expected a model in `eval()`"
            )
        self.node, self.gates = node, gates
        self.count: int = node.attr("num_layers")
        self.directions = 2 if node.attr("bidirectional") else 1
        self.direction = "bidirectional" if self.directions == 2 else "forward"
        self.each = 4 if node.attr("has_biases") else 2
        params = node.raw("params")
        self.size: int = params[1].meta["val"].shape[1]
        if len(params) != self.count * self.directions * self.each:
            raise NotImplementedError("recurrent network: expected no projections")

    def _shape(self) -> tuple[Size, ...]:
        return self.node.shape_of("input")

    @property
    def _is_batch_first(self) -> bool:
        return bool(self.node.attr("batch_first"))

    def input(self) -> Expr:
        """The input sequence x, [t, b, i]."""
        x = self.node.tensor("input")
        return op.permute_dims(x, [1, 0, 2]) if self._is_batch_first else x

    def output(self, y: Expr) -> Expr:
        """The result of the last layer in the call's layout."""
        return op.permute_dims(y, [1, 0, 2]) if self._is_batch_first else y

    def lengths(self) -> Expr:
        """Sequence lengths: an empty tensor, as all have full length."""
        return op.zeros((0,), "int32")

    def _time_and_batch(self) -> list[Size]:
        first, second, _ = self._shape()
        return [second, first] if self._is_batch_first else [first, second]

    def _param(self, layer: int, direction: int, index: int) -> Expr:
        """A weight or bias with gates in our order, [gates, h, ...]."""
        index_in_params = (layer * self.directions + direction) * self.each + index
        given = self.node.raw("params")[index_in_params]
        rest = list(given.meta["val"].shape[1:])
        by_gate = op.reshape(
            self.node.value(given), [len(self.gates), self.size, *rest]
        )
        slices = [slice_axis(by_gate, 0, g, g + 1) for g in self.gates]
        return self.node.emit(_stacked(slices))

    def _columns(self) -> int:
        return len(self.gates) * self.size

    def projected(self, x: Expr, layer: int, bias: Expr | None) -> Expr:
        """Input projection x W + bias of all steps, [t, b, d, gates h]."""
        weights = []
        for direction in range(self.directions):
            weight = self._param(layer, direction, 0)
            width = self._width(layer)
            flat = op.reshape(weight, [self._columns(), width])
            weights.append(op.permute_dims(flat))
        weight = weights[0] if len(weights) == 1 else op.concat(weights, 1)
        total = op.matmul(x, weight)
        if bias is not None:
            total = op.add(total, bias)
        shape = [*self._time_and_batch(), self.directions, self._columns()]
        return self.node.emit(op.reshape(total, shape))

    def _width(self, layer: int) -> Size:
        return self._shape()[2] if layer == 0 else self.directions * self.size

    def recurrent(self, layer: int) -> Expr:
        """The packed recurrent weights of all directions."""
        return self.node.emit(
            _stacked([self._packed(layer, d) for d in range(self.directions)])
        )

    def _packed(self, layer: int, direction: int) -> Expr:
        """Recurrent weights of one direction, packed in column blocks per gate."""
        gates, size = len(self.gates), self.size
        width = panel_width(size, vector_lanes(dtype(self.node.dtype)))
        blocks = -(-size // width)
        columns = op.permute_dims(self._param(layer, direction, 1), [2, 0, 1])
        if blocks * width != size:
            columns = op.nn.pad(columns, [0] * 5 + [blocks * width - size])
        blocked = op.reshape(columns, [1, size, gates, blocks, width])
        return op.permute_dims(blocked, [0, 2, 3, 1, 4])

    def biases(self, layer: int) -> Expr | None:
        """The sum of input and recurrent biases of all directions, [d gates h]."""
        if self.each == 2:
            return None
        sums = [
            op.add(self._param(layer, d, 2), self._param(layer, d, 3))
            for d in range(self.directions)
        ]
        flat = [op.reshape(s, [self._columns()]) for s in sums]
        return self.node.emit(_stacked(flat))

    def gru_biases(self, layer: int) -> tuple[Expr | None, Expr]:
        """Biases of the input projection, [d 3 h], and of the new gate's recurrence, [d, h]."""
        if self.each == 2:
            return None, op.zeros((self.directions, self.size), self.node.dtype)
        outer, inner = [], []
        mask = const([[1.0], [1.0], [0.0]], self.node.dtype)
        for direction in range(self.directions):
            own, recurrent = (self._param(layer, direction, i) for i in (2, 3))
            total = op.add(own, op.multiply(recurrent, mask))
            outer.append(op.reshape(total, [self._columns()]))
            inner.append(slice_axis(recurrent, 0, 2, 3))
        return self.node.emit(_stacked(outer)), self.node.emit(_stacked(inner))

    def state(self, states: Expr, layer: int) -> Expr:
        """The initial states of a layer, [d, b, h]."""
        if self.count == 1:
            return states
        begin = layer * self.directions
        return slice_axis(states, 0, begin, begin + self.directions)

    def merged(self, y: Expr) -> Expr:
        """A layer's output [t, d, b, h] with the directions concatenated, [t, b, d h]."""
        shape = [*self._time_and_batch(), self.directions * self.size]
        if self.directions == 1:
            return self.node.emit(op.reshape(y, shape))
        return self.node.emit(op.reshape(op.permute_dims(y, [0, 2, 1, 3]), shape))
