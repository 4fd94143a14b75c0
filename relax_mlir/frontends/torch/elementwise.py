"""Rules for elementwise operators."""

from collections.abc import Callable
from typing import Any

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []

_FLOAT_UNARY = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp"),
    *("log", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"),
)
_UNARY = {
    **{name: name for name in (*_FLOAT_UNARY, "abs", "ceil", "floor", "trunc")},
    "neg": "negative",
    "relu": "nn.relu",
    "round": "round",
    "sgn": "sign",
    "sign": "sign",
    "square": "square",
    "bitwise_not": "bitwise_not",
}


def relax_operator(name: str) -> Callable[..., Expr]:
    """The Relax operator's builder function by name, such as ``nn.relu``."""
    found: Any = op
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _unary_rule(ours: str) -> Callable[[TorchNode], Expr]:
    """Rule of a unary operator, computed in the type of the result."""
    return lambda node: relax_operator(ours)(node.tensor("self", node.dtype))


for _name, _ours in _UNARY.items():
    torch_rule(f"aten.{_name}.default")(_unary_rule(_ours))


@torch_rule("aten.expm1.default")
def expm1(node: TorchNode) -> Expr:
    """exp(x) - 1; near 0 as 2 tanh(x/2) / (1 - tanh(x/2)), without cancellation."""
    half = op.multiply(node.tensor("self", node.dtype), const(0.5, node.dtype))
    tangent = node.emit(op.tanh(half))
    above = op.multiply(const(2.0, node.dtype), tangent)
    near = op.divide(above, op.subtract(const(1.0, node.dtype), tangent))
    x = node.tensor("self", node.dtype)
    far = op.subtract(op.exp(x), const(1.0, node.dtype))
    is_near = op.less(op.abs(x), const(1.0, node.dtype))
    return op.where(is_near, near, far)


@torch_rule("aten.log1p.default")
def log1p(node: TorchNode) -> Expr:
    """log(1 + x), with Goldberg's correction of the rounding error of 1 + x.

    Source: Goldberg, What Every Computer Scientist Should Know About Floating-Point
    Arithmetic, 1991, theorem 4.
    """
    one = const(1.0, node.dtype)
    x = node.tensor("self", node.dtype)
    shifted = node.emit(op.add(x, one))
    rounded = node.emit(op.subtract(shifted, one))
    is_tiny = op.equal(rounded, const(0.0, node.dtype))
    is_infinite = op.isinf(shifted)
    divisor = op.where(op.logical_or(is_tiny, is_infinite), one, rounded)
    correction = op.where(is_infinite, one, op.divide(x, divisor))
    corrected = op.multiply(op.log(shifted), correction)
    return op.where(is_tiny, x, corrected)


@torch_rule("aten.erfc.default")
def erfc(node: TorchNode) -> Expr:
    """1 - erf(x); small results are accurate only in absolute terms."""
    found = op.erf(node.tensor("self", node.dtype))
    return op.subtract(const(1.0, node.dtype), found)


@torch_rule("aten.hypot.default")
def hypot(node: TorchNode) -> Expr:
    """sqrt(x^2 + y^2), scaled by the larger magnitude to avoid overflow."""
    magnitudes = [op.abs(node.tensor(n, node.dtype)) for n in ("self", "other")]
    larger, smaller = node.emit(op.maximum(*magnitudes)), op.minimum(*magnitudes)
    is_regular = op.logical_and(
        op.greater(larger, const(0.0, node.dtype)), op.isfinite(larger)
    )
    ratio = op.divide(smaller, op.where(is_regular, larger, const(1.0, node.dtype)))
    scaled = op.sqrt(op.add(op.square(ratio), const(1.0, node.dtype)))
    return op.where(is_regular, op.multiply(larger, scaled), larger)


@torch_rule("aten.exp2.default")
def exp2(node: TorchNode) -> Expr:
    """2 to the power of x."""
    return op.power(const(2.0, node.dtype), node.tensor("self", node.dtype))


@torch_rule("aten.log2.default", "aten.log10.default")
def log_of_base(node: TorchNode) -> Expr:
    """Logarithm to base 2 or 10."""
    is_two = node.fx_node.target.__name__.startswith("log2")
    scale = 1.4426950408889634 if is_two else 0.4342944819032518
    return op.multiply(
        op.log(node.tensor("self", node.dtype)), const(scale, node.dtype)
    )


@torch_rule("aten.round.decimals")
def round_decimals(node: TorchNode) -> Expr:
    """x rounded to a number of decimals."""
    scale = const(10.0 ** node.attr("decimals"), node.dtype)
    return op.divide(op.round(op.multiply(node.tensor("self"), scale)), scale)


@torch_rule("aten.isnan.default", "aten.isinf.default", "aten.isfinite.default")
def classify(node: TorchNode) -> Expr:
    """Elementwise test for NaN, infinity or finiteness; integers are finite."""
    name = node.fx_node.target.__name__.partition(".")[0]
    return relax_operator(name)(_as_float(node, "self"))


def _as_float(node: TorchNode, name: str) -> Expr:
    old = node.dtype_of(name)
    return node.tensor(name, old if "float" in old else "float32")


@torch_rule("aten.logical_not.default")
def logical_not(node: TorchNode) -> Expr:
    """Elementwise test for 0."""
    return op.logical_not(_as_bool(node, "self"))


def _as_bool(node: TorchNode, name: str) -> Expr:
    """An argument as bool: whether each element is nonzero."""
    old = node.dtype_of(name)
    x = node.tensor(name)
    return x if old == "bool" else op.not_equal(x, const(0, old))


@torch_rule(
    "aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default"
)
def logical(node: TorchNode) -> Expr:
    """Elementwise and, or, exclusive or of nonzero elements."""
    name = node.fx_node.target.__name__.partition(".")[0]
    return relax_operator(name)(_as_bool(node, "self"), _as_bool(node, "other"))


_BINARY = {
    "mul": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
    "remainder": "floor_mod",
    "fmod": "mod",
    "atan2": "atan2",
}


def _overloads(name: str) -> list[str]:
    if name in ("maximum", "minimum", "atan2"):
        return [f"aten.{name}.default"]
    return [f"aten.{name}.Tensor", f"aten.{name}.Scalar"]


def _binary_rule(ours: str) -> Callable[[TorchNode], Expr]:
    """Rule of a binary operator, computed in the type of the result."""

    def rule(node: TorchNode) -> Expr:
        x, y = (node.tensor(n, node.dtype) for n in ("self", "other"))
        if node.dtype == "bool" and ours == "multiply":
            return op.logical_and(x, y)
        return relax_operator(ours)(x, y)

    return rule


for _name, _ours in _BINARY.items():
    torch_rule(*_overloads(_name))(_binary_rule(_ours))


@torch_rule(
    *("aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar"),
    *("aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar"),
    *("aten.__lshift__.Tensor", "aten.__lshift__.Scalar"),
    *("aten.__rshift__.Tensor", "aten.__rshift__.Scalar"),
)
def shift(node: TorchNode) -> Expr:
    """Bitwise shift to the left or to the right."""
    name = node.fx_node.target.__name__
    is_left = "left" in name or "lshift" in name
    x, y = (node.tensor(n, node.dtype) for n in ("self", "other"))
    return op.left_shift(x, y) if is_left else op.right_shift(x, y)


@torch_rule("aten.add.Tensor", "aten.add.Scalar")
def add(node: TorchNode) -> Expr:
    """x + alpha * y; logical or for bool."""
    if node.dtype == "bool":
        return op.logical_or(node.tensor("self"), node.tensor("other", "bool"))
    return op.add(node.tensor("self", node.dtype), _scaled(node, "other"))


@torch_rule("aten.sub.Tensor", "aten.sub.Scalar")
def sub(node: TorchNode) -> Expr:
    """x - alpha * y."""
    return op.subtract(node.tensor("self", node.dtype), _scaled(node, "other"))


@torch_rule("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(node: TorchNode) -> Expr:
    """y - alpha * x."""
    return op.subtract(node.tensor("other", node.dtype), _scaled(node, "self"))


def _scaled(node: TorchNode, name: str) -> Expr:
    """An argument times ``alpha``."""
    value, alpha = node.tensor(name, node.dtype), node.raw("alpha")
    if alpha is None or alpha == 1:
        return value
    return op.multiply(value, node.tensor("alpha", node.dtype))


@torch_rule("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(node: TorchNode) -> Expr:
    """True division: x / y in floating point."""
    return op.divide(node.tensor("self", node.dtype), node.tensor("other", node.dtype))


@torch_rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(node: TorchNode) -> Expr:
    """x / y, truncated or floored."""
    mode = node.attr("rounding_mode")
    x, y = (node.tensor(n, node.dtype) for n in ("self", "other"))
    if "int" in node.dtype:
        return op.floor_divide(x, y) if mode == "floor" else op.divide(x, y)
    if mode == "floor":
        return op.floor(op.divide(x, y))
    quotient = op.divide(x, y)
    return op.trunc(quotient) if mode == "trunc" else quotient


@torch_rule("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(node: TorchNode) -> Expr:
    """floor(x / y)."""
    x, y = (node.tensor(n, node.dtype) for n in ("self", "other"))
    if "int" in node.dtype:
        return op.floor_divide(x, y)
    return op.floor(op.divide(x, y))


_CONSTANT_POWERS: dict[float, Callable[[Expr], Expr]] = {
    0.5: op.sqrt,
    -0.5: op.rsqrt,
    1: lambda x: x,
    2: op.square,
    -1: op.reciprocal,
}


@torch_rule("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(node: TorchNode) -> Expr:
    """x to the power of y, with cheaper operators for some constant exponents."""
    x, exponent = node.tensor("self", node.dtype), node.raw("exponent")
    if isinstance(exponent, (int, float)) and "float" in node.dtype:
        if exponent == 3:
            return op.multiply(op.square(x), x)
        if exponent in _CONSTANT_POWERS:
            return _CONSTANT_POWERS[exponent](x)
    return op.power(x, node.tensor("exponent", node.dtype))


_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _comparison_rule(ours: str) -> Callable[[TorchNode], Expr]:
    """Rule of a comparison, in the promoted type of both arguments."""

    def rule(node: TorchNode) -> Expr:
        dtype = node.promoted("self", "other")
        return relax_operator(ours)(
            node.tensor("self", dtype), node.tensor("other", dtype)
        )

    return rule


for _name, _ours in _COMPARISONS.items():
    torch_rule(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_comparison_rule(_ours))


@torch_rule(
    "aten.where.self",
    *("aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"),
)
def where(node: TorchNode) -> Expr:
    """Elementwise select: x where the condition holds, else y."""
    condition = node.tensor("condition", "bool")
    return op.where(
        condition, node.tensor("self", node.dtype), node.tensor("other", node.dtype)
    )


@torch_rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(node: TorchNode) -> Expr:
    """x with a scalar where the mask holds."""
    return op.where(
        node.tensor("mask"), node.tensor("value", node.dtype), node.tensor("self")
    )


@torch_rule("aten.clamp.default", "aten.clamp.Tensor")
def clamp(node: TorchNode) -> Expr:
    """x clipped to [min, max]; either limit may be missing."""
    found = node.tensor("self", node.dtype)
    if node.has("min"):
        found = op.maximum(found, node.tensor("min", node.dtype))
    if node.has("max"):
        found = op.minimum(found, node.tensor("max", node.dtype))
    return found


@torch_rule("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(node: TorchNode) -> Expr:
    """max(x, min)."""
    return op.maximum(node.tensor("self", node.dtype), node.tensor("min", node.dtype))


@torch_rule("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(node: TorchNode) -> Expr:
    """min(x, max)."""
    return op.minimum(node.tensor("self", node.dtype), node.tensor("max", node.dtype))


@torch_rule("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout")
def to_copy(node: TorchNode) -> Expr:
    """Cast to another element type; device and memory format are ignored."""
    return node.tensor("self", node.dtype)


@torch_rule("prims.convert_element_type.default")
def convert_element_type(node: TorchNode) -> Expr:
    """Cast to another element type."""
    return node.tensor("a", node.dtype)


@torch_rule(
    *("aten.clone.default", "aten.alias.default", "aten.detach.default"),
    *(
        "aten.lift_fresh_copy.default",
        "aten.contiguous.default",
        "aten.detach_.default",
    ),
    *("aten.dropout.default", "aten.native_dropout.default"),
)
def same(node: TorchNode) -> Expr | list[Expr | None]:
    """The tensor itself: copies, aliases, and dropout at inference."""
    name = node.fx_node.target.__name__
    if "dropout" not in name:
        return node.tensor("self")
    if node.attr("train") and node.attr("p"):
        raise NotImplementedError("dropout in training: expected a model in `eval()`")
    return [node.tensor("input"), None] if "native" in name else node.tensor("input")


@torch_rule("aten.addcmul.default", "aten.addcdiv.default")
def add_combined(node: TorchNode) -> Expr:
    """self + value * tensor1 * tensor2, or self + value * tensor1 / tensor2."""
    multiplies = "addcmul" in node.fx_node.target.__name__
    first, second = (node.tensor(n, node.dtype) for n in ("tensor1", "tensor2"))
    combined = op.multiply(first, second) if multiplies else op.divide(first, second)
    if node.raw("value") != 1:
        combined = op.multiply(node.tensor("value", node.dtype), combined)
    return op.add(node.tensor("self", node.dtype), combined)


@torch_rule("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(node: TorchNode) -> Expr:
    """Linear interpolation: start + weight * (end - start)."""
    start, weight = node.tensor("self"), node.tensor("weight", node.dtype)
    return op.add(start, op.multiply(weight, op.subtract(node.tensor("end"), start)))
