"""Rules for recurrent networks, whose steps stay a loop inside of one operator."""

from collections.abc import Sequence

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.recurrent_program import block_width
from relax_mlir.dialects.tir.lanes import lanes_for
from relax_mlir.frontends.torch.movement import sliced
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr, const
from relax_mlir.relax import op

__all__: list[str] = []

# Where our gates are among torch's.
_LSTM_GATES = (0, 3, 1, 2)  # in, out, forget, new from in, forget, new, out
_GRU_GATES = (1, 0, 2)  # update, reset, new from reset, update, new


@torch_rule("aten.lstm.input")
def lstm(node: TorchNode) -> list[Expr]:
    """Layers of long short-term memory."""
    layers = _Layers(node, _LSTM_GATES)
    hidden, cells = node.tensors("hx")
    x, last, last_cells = layers.input(), [], []
    for number in range(layers.count):
        peepholes = op.zeros((layers.directions, 0), node.dtype)
        whole = op.nn.lstm(
            layers.projected(x, number, layers.biases(number)),
            layers.recurrent(number),
            layers.state(hidden, number),
            layers.state(cells, number),
            peepholes,
            layers.lengths(),
            direction=layers.direction,
        )
        y, state, cell = node.parts(whole, 3)
        last.append(state)
        last_cells.append(cell)
        x = layers.joined(y)
    return [layers.output(x), _stacked(last), _stacked(last_cells)]


@torch_rule("aten.gru.input")
def gru(node: TorchNode) -> list[Expr]:
    """Layers of gated recurrent units."""
    layers = _Layers(node, _GRU_GATES)
    x, last = layers.input(), []
    for number in range(layers.count):
        outer, inner = layers.gru_biases(number)
        whole = op.nn.gru(
            layers.projected(x, number, outer),
            layers.recurrent(number),
            layers.state(node.tensor("hx"), number),
            inner,
            layers.lengths(),
            direction=layers.direction,
            linear_before_reset=True,
        )
        y, state = node.parts(whole, 2)
        last.append(state)
        x = layers.joined(y)
    return [layers.output(x), _stacked(last)]


@torch_rule("aten.rnn_tanh.input", "aten.rnn_relu.input")
def rnn(node: TorchNode) -> list[Expr]:
    """Layers of simple recurrent networks."""
    function = "tanh" if "tanh" in node.fx_node.target.__name__ else "relu"
    layers = _Layers(node, (0,))
    x, last = layers.input(), []
    for number in range(layers.count):
        whole = op.nn.rnn(
            layers.projected(x, number, layers.biases(number)),
            layers.recurrent(number),
            layers.state(node.tensor("hx"), number),
            layers.lengths(),
            direction=layers.direction,
            functions=function,
        )
        y, state = node.parts(whole, 2)
        last.append(state)
        x = layers.joined(y)
    return [layers.output(x), _stacked(last)]


def _stacked(parts: Sequence[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else op.concat(list(parts), 0)


class _Layers:
    """The layers of one call, whichever cell they have.

    Args:
        node: the call.
        gates: where our gates are among torch's.
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
        """x, [t, b, i]."""
        x = self.node.tensor("input")
        return op.permute_dims(x, [1, 0, 2]) if self._is_batch_first else x

    def output(self, y: Expr) -> Expr:
        """The result of the last layer as it is to be."""
        return op.permute_dims(y, [1, 0, 2]) if self._is_batch_first else y

    def lengths(self) -> Expr:
        """Of the sequences: all have all steps."""
        return op.zeros((0,), "int32")

    def _time_and_batch(self) -> list[Size]:
        first, second, _ = self._shape()
        return [second, first] if self._is_batch_first else [first, second]

    def _param(self, layer: int, direction: int, index: int) -> Expr:
        """A weight or bias with the gates in our order, [gates, h, ...]."""
        number = (layer * self.directions + direction) * self.each + index
        given = self.node.raw("params")[number]
        rest = list(given.meta["val"].shape[1:])
        apart = op.reshape(self.node.value(given), [len(self.gates), self.size, *rest])
        slices = [sliced(apart, 0, g, g + 1) for g in self.gates]
        return self.node.emit(_stacked(slices))

    def _columns(self) -> int:
        return len(self.gates) * self.size

    def projected(self, x: Expr, layer: int, bias: Expr | None) -> Expr:
        """x W, and a bias if there is one, of all steps, [t, b, d, gates h]."""
        weights = []
        for direction in range(self.directions):
            weight = self._param(layer, direction, 0)
            width = self._width(layer)
            flat = op.reshape(weight, [self._columns(), width])
            weights.append(op.permute_dims(flat))
        joined = weights[0] if len(weights) == 1 else op.concat(weights, 1)
        total = op.matmul(x, joined)
        if bias is not None:
            total = op.add(total, bias)
        shape = [*self._time_and_batch(), self.directions, self._columns()]
        return self.node.emit(op.reshape(total, shape))

    def _width(self, layer: int) -> Size:
        return self._shape()[2] if layer == 0 else self.directions * self.size

    def recurrent(self, layer: int) -> Expr:
        """The weights that the state is multiplied with, packed as the operators want them."""
        return self.node.emit(
            _stacked([self._packed(layer, d) for d in range(self.directions)])
        )

    def _packed(self, layer: int, direction: int) -> Expr:
        """Weights [gates, h, h] with the columns of each gate in blocks."""
        gates, size = len(self.gates), self.size
        width = block_width(size, lanes_for(dtype(self.node.dtype)))
        blocks = -(-size // width)
        columns = op.permute_dims(self._param(layer, direction, 1), [2, 0, 1])
        if blocks * width != size:
            columns = op.nn.pad(columns, [0] * 5 + [blocks * width - size])
        apart = op.reshape(columns, [1, size, gates, blocks, width])
        return op.permute_dims(apart, [0, 2, 3, 1, 4])

    def biases(self, layer: int) -> Expr | None:
        """Both biases of all directions together, [d gates h]."""
        if self.each == 2:
            return None
        sums = [
            op.add(self._param(layer, d, 2), self._param(layer, d, 3))
            for d in range(self.directions)
        ]
        flat = [op.reshape(s, [self._columns()]) for s in sums]
        return self.node.emit(_stacked(flat))

    def gru_biases(self, layer: int) -> tuple[Expr | None, Expr]:
        """What is added outside, [d 3 h], and to the product of the new gate, [d, h]."""
        if self.each == 2:
            return None, op.zeros((self.directions, self.size), self.node.dtype)
        outer, inner = [], []
        mask = const([[1.0], [1.0], [0.0]], self.node.dtype)
        for direction in range(self.directions):
            own, recurrent = (self._param(layer, direction, i) for i in (2, 3))
            total = op.add(own, op.multiply(recurrent, mask))
            outer.append(op.reshape(total, [self._columns()]))
            inner.append(sliced(recurrent, 0, 2, 3))
        return self.node.emit(_stacked(outer)), self.node.emit(_stacked(inner))

    def state(self, states: Expr, layer: int) -> Expr:
        """The first states of a layer, [d, b, h]."""
        if self.count == 1:
            return states
        begin = layer * self.directions
        return sliced(states, 0, begin, begin + self.directions)

    def joined(self, y: Expr) -> Expr:
        """What a layer gives, [t, d, b, h], with the directions side by side, [t, b, d h]."""
        shape = [*self._time_and_batch(), self.directions * self.size]
        if self.directions == 1:
            return self.node.emit(op.reshape(y, shape))
        return self.node.emit(op.reshape(op.permute_dims(y, [0, 2, 1, 3]), shape))
