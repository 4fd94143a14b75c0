"""Rules of operators that work on every element alone."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from relax_mlir import topi
from relax_mlir.objects.expr import Call, Expr, const
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    literal,
    number,
    passing,
)
from relax_mlir.te.tensor import Tensor

__all__ = ["RULES", "erf"]

# Their programs start with `tir_`, so that none is called as a function of C is.
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
    """The error function; that of half precision is computed in single precision."""
    if x.dtype != "float16":
        return topi.erf(x)
    return topi.cast(topi.erf(topi.cast(x, "float32")), "float16")


def _binary(name: str) -> LegalizeFunc:
    """One operand may be a constant, which then stands in the program."""
    te_func: Callable[..., Any] = getattr(topi, name)

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        lhs, rhs = call.args
        if number(rhs) is not None:
            rhs = literal(rhs)
        else:
            lhs = literal(lhs)
        return builder.call_te(te_func, lhs, rhs, primfunc_name_hint=name)

    return rule


def _astype(builder: BlockBuilder, call: Call) -> Expr:
    (x,), dtype = call.args, str(call.attrs["dtype"])
    value = number(x)
    if value is not None:
        return const(value, dtype)
    cast = partial(topi.cast, dtype=dtype)
    return builder.call_te(cast, x, primfunc_name_hint="cast")


RULES: Mapping[str, LegalizeFunc] = {
    **{name: passing(getattr(topi, name), f"tir_{name}") for name in _UNARY},
    **{name: _binary(name) for name in _BINARY},
    "square": passing(_square, "tir_square"),
    "erf": passing(erf, "erf"),
    "astype": _astype,
    "where": passing(topi.where),
}
