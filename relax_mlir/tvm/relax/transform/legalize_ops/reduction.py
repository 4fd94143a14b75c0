"""Legalization rules of reductions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, ShapeExpr
from relax_mlir.tvm import te, topi
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    te_rule,
    tensor_info,
)

__all__ = ["RULES"]

_Axes = Sequence[int] | None


def _reduction_rule(
    te_func: Callable[..., Any], empty: int | None = None
) -> LegalizeFunc:
    """A rule for a reduction; ``empty`` is its result over an axis of size 0."""
    name = te_func.__name__

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        axis, keepdims = call.attrs["axis"], call.attrs["keepdims"]
        if empty is not None and _reduces_empty_axis(call.args[0], axis):
            result = tensor_info(call)
            assert isinstance(result.shape, ShapeExpr)
            value = bool(empty) if result.dtype == "bool" else empty
            shape = list(result.shape.values)
            return builder.call_te(topi.full, shape, result.dtype, value)
        return builder.call_te(
            te_func, call.args[0], axis, keepdims, primfunc_name_hint=name
        )

    return rule


def _reduces_empty_axis(x: Expr, axis: _Axes) -> bool:
    shape = tensor_info(x).shape
    assert isinstance(shape, ShapeExpr)
    sizes = shape.values
    reduced = sizes if axis is None else [sizes[int(a)] for a in axis]
    return any(isinstance(s, prim.IntImm) and s.value == 0 for s in reduced)


def _reduction_size(x: te.Tensor, axis: _Axes) -> Any:
    """Returns the number of elements that are reduced to one."""
    count: Any = prim.const(1, "int32")
    for a in range(x.ndim) if axis is None else axis:
        count = count * x.shape[a]
    return count


def _mean(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    count = _reduction_size(x, axis)
    return topi.divide(topi.sum(x, axis, keepdims), count)


def _variance(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    deviation = x - _mean(x, axis, True)
    return _mean(deviation * deviation, axis, keepdims)


def _std(x: te.Tensor, axis: _Axes, keepdims: bool) -> te.Tensor:
    return topi.sqrt(_variance(x, axis, keepdims))


RULES: Mapping[str, LegalizeFunc] = {
    "max": _reduction_rule(topi.max),
    "min": _reduction_rule(topi.min),
    "prod": _reduction_rule(topi.prod, empty=1),
    "sum": _reduction_rule(topi.sum, empty=0),
    "mean": te_rule(_mean, "mean", "axis", "keepdims"),
    "std": te_rule(_std, "std", "axis", "keepdims"),
    "variance": te_rule(_variance, "variance", "axis", "keepdims"),
    "argmax": te_rule(topi.argmax, None, "axis", "keepdims"),
    "argmin": te_rule(topi.argmin, None, "axis", "keepdims"),
}
