"""Rules for activation functions."""

import math
from collections.abc import Callable

from relax_mlir.frontends.torch.elementwise import relax_operator
from relax_mlir.frontends.torch.movement import slice_axis
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []

# ATen operator to Relax operator and the names of its attributes.
_PLAIN = {
    "silu": ("nn.silu", ()),
    "selu": ("nn.selu", ()),
    "mish": ("mish", ()),
    "hardswish": ("hard_swish", ()),
    "celu": ("celu", ("alpha",)),
    "leaky_relu": ("nn.leakyrelu", ("negative_slope",)),
    "softplus": ("nn.softplus", ("beta", "threshold")),
}


def _plain_rule(ours: str, names: tuple[str, ...]) -> Callable[[TorchNode], Expr]:
    return lambda node: relax_operator(ours)(
        node.tensor("self"), *(float(node.attr(n)) for n in names)
    )


for _name, (_ours, _names) in _PLAIN.items():
    torch_rule(f"aten.{_name}.default")(_plain_rule(_ours, _names))


@torch_rule("aten.relu6.default")
def relu6(node: TorchNode) -> Expr:
    """ReLU clipped at 6."""
    return op.clip(node.tensor("self"), 0, 6)


@torch_rule("aten.gelu.default")
def gelu(node: TorchNode) -> Expr:
    """Gaussian error linear unit, exact (erf) or by the tanh approximation."""
    is_plain = node.attr("approximate") == "none"
    build = op.nn.gelu if is_plain else op.nn.gelu_tanh
    return build(node.tensor("self"))


@torch_rule("aten.hardsigmoid.default")
def hardsigmoid(node: TorchNode) -> Expr:
    """Hard sigmoid: (x + 3) / 6, clipped to [0, 1]."""
    shifted = op.add(node.tensor("self"), const(3.0, node.dtype))
    return op.divide(op.clip(shifted, 0, 6), const(6.0, node.dtype))


@torch_rule("aten.hardtanh.default")
def hardtanh(node: TorchNode) -> Expr:
    """x clipped to [min_val, max_val]."""
    limits = (float(node.attr(n)) for n in ("min_val", "max_val"))
    return op.clip(node.tensor("self"), *limits)


@torch_rule("aten.elu.default")
def elu(node: TorchNode) -> Expr:
    """ELU: scale * x above 0, else scale * alpha * (exp(x * input_scale) - 1)."""
    alpha, scale, inner = (
        float(node.attr(n)) for n in ("alpha", "scale", "input_scale")
    )
    x, zero = node.tensor("self"), const(0.0, node.dtype)
    raised = op.exp(op.multiply(op.minimum(x, zero), const(inner, node.dtype)))
    below = op.multiply(
        op.subtract(raised, const(1.0, node.dtype)), const(alpha * scale, node.dtype)
    )
    above = op.multiply(x, const(scale, node.dtype))
    return op.where(op.greater(x, zero), above, below)


@torch_rule("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(node: TorchNode) -> Expr:
    """Parametric ReLU with one slope, or one per channel."""
    x, weight, zero = node.tensor("self"), node.tensor("weight"), const(0.0, node.dtype)
    rank, own = node.rank_of("self"), node.rank_of("weight")
    if own == 1 and rank > 1:
        size = node.shape_of("weight")[0]
        weight = op.reshape(weight, (size, *[1] * (rank - 2)))
    return op.where(op.greater(x, zero), x, op.multiply(weight, x))


@torch_rule("aten.glu.default")
def glu(node: TorchNode) -> Expr:
    """Gated linear unit: the first half of an axis times the sigmoid of the second."""
    axis = node.axis("dim", node.rank_of("self"))
    x, half = node.tensor("self"), node.shape[axis]
    first, second = slice_axis(x, axis, 0, half), slice_axis(x, axis, half, 2 * half)
    return op.multiply(first, op.sigmoid(second))


@torch_rule("aten.log_sigmoid.default", "aten.log_sigmoid_forward.default")
def log_sigmoid(node: TorchNode) -> Expr | list[Expr | None]:
    """log(sigmoid(x)), computed as min(x, 0) - log(1 + exp(-|x|))."""
    x, zero = node.tensor("self"), const(0.0, node.dtype)
    tail = op.add(op.exp(op.negative(op.abs(x))), const(1.0, node.dtype))
    found = op.subtract(op.minimum(x, zero), op.log(tail))
    return [found, None] if "forward" in node.fx_node.target.__name__ else found


@torch_rule(
    *("aten._softmax.default", "aten.softmax.int"),
    *("aten._log_softmax.default", "aten.log_softmax.int"),
    "aten._safe_softmax.default",
)
def softmax(node: TorchNode) -> Expr:
    """Softmax or log-softmax along one axis; safe softmax gives 0 for rows of -inf."""
    name = node.fx_node.target.__name__
    axis = node.axis("dim", node.rank_of("self"))
    x = node.tensor("self", node.dtype)
    if node.rank_of("self") == 0:
        return op.full_like(x, const(0.0 if "log" in name else 1.0, node.dtype))
    if "log" in name:
        return op.nn.log_softmax(x, axis)
    found = op.nn.softmax(x, axis)
    if "safe" not in name:
        return found
    hidden = op.equal(op.max(x, axis, True), const(-math.inf, node.dtype))
    return op.where(hidden, const(0.0, node.dtype), found)
