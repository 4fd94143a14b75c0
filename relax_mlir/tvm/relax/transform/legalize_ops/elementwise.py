"""Legalization rules of elementwise operators."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, const
from relax_mlir.tvm import topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    scalar_literal,
    scalar_value,
    te_rule,
)
from relax_mlir.tvm.te.tensor import Tensor

__all__ = ["RULES", "erf"]

# Prefix `tir_`: no program may have the name of a C library function.
_UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not"),
    *("ceil", "clip", "cos", "cosh", "exp", "floor", "isfinite", "isinf", "isnan"),
    *("log", "logical_not", "negative", "round", "rsqrt", "sigmoid", "sign", "sin"),
    *("sinh", "sqrt", "tan", "tanh", "trunc"),
)
_BINARY = (
    *("add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal"),
    *("floor_divide", "floor_mod", "greater", "greater_equal", "left_shift", "less"),
    *("less_equal", "log_add_exp", "logical_and", "logical_or", "logical_xor"),
    *("maximum", "minimum", "mod", "multiply", "not_equal", "power", "right_shift"),
    "subtract",
)


def _square(x: Tensor) -> Any:
    return x * x


def erf(x: Tensor) -> Tensor:
    """Returns the error function; float16 is computed in single precision."""
    if x.dtype != "float16":
        return topi.erf(x)
    return topi.cast(topi.erf(topi.cast(x, "float32")), "float16")


def _binary(name: str) -> LegalizeFunc:
    """A rule for a binary operator; one constant operand becomes a literal."""
    te_func: Callable[..., Any] = getattr(topi, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        lhs, rhs = call.args
        if scalar_value(rhs) is not None:
            rhs = scalar_literal(rhs)
        else:
            lhs = scalar_literal(lhs)
        return builder.call_te(te_func, lhs, rhs, primfunc_name_hint=name)

    return rule


def _astype(builder: BlockBuilder, call: Call) -> Expr:
    (x,), dtype = call.args, str(call.attrs["dtype"])
    value = scalar_value(x)
    if value is not None:
        return const(value, dtype)
    cast = partial(topi.cast, dtype=dtype)
    return builder.call_te(cast, x, primfunc_name_hint="cast")


RULES: Mapping[str, LegalizeFunc] = {
    **{name: te_rule(getattr(topi, name), f"tir_{name}") for name in _UNARY},
    **{name: _binary(name) for name in _BINARY},
    "square": te_rule(_square, "tir_square"),
    "erf": te_rule(erf, "erf"),
    "astype": _astype,
    "where": te_rule(topi.where),
}
