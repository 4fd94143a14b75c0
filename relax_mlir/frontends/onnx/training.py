"""Rules for optimizer updates: Momentum, Adagrad and Adam of ai.onnx.preview.training."""

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AddOp,
    DivideOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import GreaterOp, WhereOp
from relax_mlir.dialects.relax.exp_log import PowerOp, SqrtOp

_DOMAIN = "ai.onnx.preview.training"


def _number(node: OnnxNode, value: float, like: ir.Value) -> ir.Value:
    return node.constant(np.array(value).astype(tensors.dtype_of(like).numpy))


def _scaled(node: OnnxNode, x: ir.Value, scale: float) -> ir.Value:
    return x if scale == 1 else MultiplyOp(x, _number(node, scale, x)).z


def _regularized(node: OnnxNode, x: ir.Value, gradient: ir.Value) -> ir.Value:
    """The gradient plus L2 regularization (weight decay)."""
    scale = node.attr("norm_coefficient", 0.0)
    return AddOp(_scaled(node, x, scale), gradient).z if scale else gradient


def _steps(
    node: OnnxNode, states: int, step: Callable[..., Sequence[ir.Value]]
) -> list[ir.Value]:
    """Optimizer updates of all tensors of a node.

    Args:
        node: its inputs are the learning rate, the update count, then all tensors, all
            gradients and all optimizer states, grouped by kind.
        states: the number of optimizer states per tensor.
        step: maps (rate, count, x, gradient, *states), all of x's element type, to
            (x, *states).

    Raises:
        ValueError: the number of inputs does not match.
    """
    kinds = states + 2
    count, rest = divmod(len(node.inputs) - 2, kinds)
    if count < 1 or rest:
        raise ValueError(
            f"expected 2 inputs and {kinds} for each tensor, got {len(node.inputs)}"
        )
    rate, updates = node.input(0), node.input(1)
    stepped = []
    for first in range(count):
        own = [node.input(2 + first + kind * count) for kind in range(kinds)]
        type_ = tensors.dtype_of(own[0])
        stepped.append(
            step(AstypeOp(rate, dtype=type_).y, AstypeOp(updates, dtype=type_).y, *own)
        )
    return [results[kind] for kind in range(states + 1) for results in stepped]


@onnx_rule(f"{_DOMAIN}::Momentum", since=1)
def momentum(node: OnnxNode) -> list[ir.Value]:
    """Gradient descent with momentum, standard or Nesterov.

    Source: ONNX (ai.onnx.preview.training) Momentum-1.
    """
    mode, alpha, beta = (node.attr(name) for name in ("mode", "alpha", "beta"))
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"mode: expected standard or nesterov, got {mode!r}")

    def step(
        rate: ir.Value, count: ir.Value, x: ir.Value, gradient: ir.Value, v: ir.Value
    ) -> list[ir.Value]:
        gradient = _regularized(node, x, gradient)
        is_later = GreaterOp(count, _number(node, 0, count)).z
        share = WhereOp(is_later, _number(node, beta, x), _number(node, 1, x)).z
        v = AddOp(_scaled(node, v, alpha), MultiplyOp(share, gradient).z).z
        update = AddOp(gradient, _scaled(node, v, alpha)).z if mode == "nesterov" else v
        return [SubtractOp(x, MultiplyOp(rate, update).z).z, v]

    return _steps(node, 1, step)


@onnx_rule(f"{_DOMAIN}::Adagrad", since=1)
def adagrad(node: OnnxNode) -> list[ir.Value]:
    """AdaGrad: scales steps by the inverse root of the accumulated squared gradients.

    Source: ONNX (ai.onnx.preview.training) Adagrad-1.
    """
    decay, epsilon = node.attr("decay_factor", 0.0), node.attr("epsilon", 1e-6)

    def step(
        rate: ir.Value, count: ir.Value, x: ir.Value, gradient: ir.Value, h: ir.Value
    ) -> list[ir.Value]:
        slowdown = AddOp(_scaled(node, count, decay), _number(node, 1, count)).z
        gradient = _regularized(node, x, gradient)
        h = AddOp(h, MultiplyOp(gradient, gradient).z).z
        root = AddOp(SqrtOp(h).y, _number(node, epsilon, h)).z
        update = DivideOp(MultiplyOp(DivideOp(rate, slowdown).z, gradient).z, root).z
        return [SubtractOp(x, update).z, h]

    return _steps(node, 1, step)


@onnx_rule(f"{_DOMAIN}::Adam", since=1)
def adam(node: OnnxNode) -> list[ir.Value]:
    """Adam: moving average of gradients over the root of that of their squares.

    Source: ONNX (ai.onnx.preview.training) Adam-1.
    """
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)
    epsilon, after = node.attr("epsilon", 1e-6), node.attr("norm_coefficient_post", 0.0)

    def step(
        rate: ir.Value,
        count: ir.Value,
        x: ir.Value,
        gradient: ir.Value,
        v: ir.Value,
        h: ir.Value,
    ) -> list[ir.Value]:
        gradient = _regularized(node, x, gradient)
        square = MultiplyOp(gradient, gradient).z
        v = AddOp(_scaled(node, v, alpha), _scaled(node, gradient, 1 - alpha)).z
        h = AddOp(_scaled(node, h, beta), _scaled(node, square, 1 - beta)).z
        root = AddOp(SqrtOp(h).y, _number(node, epsilon, h)).z
        update = MultiplyOp(_unbiased(node, rate, count), DivideOp(v, root).z).z
        return [_scaled(node, SubtractOp(x, update).z, 1 - after), v, h]

    def _unbiased(node: OnnxNode, rate: ir.Value, count: ir.Value) -> ir.Value:
        """The learning rate with Adam's bias correction."""
        one = _number(node, 1, count)
        corrections = [
            SubtractOp(one, PowerOp(_number(node, base, count), count).z).z
            for base in (beta, alpha)
        ]
        adjusted = DivideOp(
            MultiplyOp(rate, SqrtOp(corrections[0]).y).z, corrections[1]
        ).z
        is_later = GreaterOp(count, _number(node, 0, count)).z
        return WhereOp(is_later, adjusted, rate).z

    return _steps(node, 2, step)
