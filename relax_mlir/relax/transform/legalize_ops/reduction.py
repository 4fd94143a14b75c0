"""Rules of operators that make one element of many."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir import te, topi
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, ShapeExpr
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    passing,
    tensor_info,
)

__all__ = ["RULES"]

_Axes = Sequence[int] | None


def _reduced(te_func: Callable[..., Any], empty: int | None = None) -> LegalizeFunc:
    """A reduction; ``empty`` is what it gives where there is nothing to reduce."""
    name = te_func.__name__

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        axis, keepdims = call.attrs["axis"], call.attrs["keepdims"]
        if empty is not None and _reduces_nothing(call.args[0], axis):
            result = tensor_info(call)
            assert isinstance(result.shape, ShapeExpr)
            value = bool(empty) if result.dtype == "bool" else empty
            shape = list(result.shape.values)
            return builder.call_te(topi.full, shape, result.dtype, value)
        return builder.call_te(
            te_func, call.args[0], axis, keepdims, primfunc_name_hint=name
        )

    return rule


def _reduces_nothing(x: Expr, axis: _Axes) -> bool:
    shape = tensor_info(x).shape
    assert isinstance(shape, ShapeExpr)
    sizes = shape.values
    reduced = sizes if axis is None else [sizes[int(a)] for a in axis]
    return any(isinstance(s, prim.IntImm) and s.value == 0 for s in reduced)


def _count(x: te.Tensor, axis: _Axes) -> Any:
    """How many elements make one."""
    count: Any = prim.const(1, "int32")
    for a in range(x.ndim) if axis is None else axis:
        count = count * x.shape[a]
    return count


def _mean(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    count = _count(x, axis)
    return topi.divide(topi.sum(x, axis, keepdims), count)


def _variance(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    deviation = x - _mean(x, axis, True)
    return _mean(deviation * deviation, axis, keepdims)


def _std(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    return topi.sqrt(_variance(x, axis, keepdims))


RULES: Mapping[str, LegalizeFunc] = {
    "max": _reduced(topi.max),
    "min": _reduced(topi.min),
    "prod": _reduced(topi.prod, empty=1),
    "sum": _reduced(topi.sum, empty=0),
    "mean": passing(_mean, "mean", "axis", "keepdims"),
    "std": passing(_std, "std", "axis", "keepdims"),
    "variance": passing(_variance, "variance", "axis", "keepdims"),
    "argmax": passing(topi.argmax, None, "axis", "keepdims"),
    "argmin": passing(topi.argmin, None, "axis", "keepdims"),
}
