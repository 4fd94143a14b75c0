"""Constructor functions of patterns (``is_op``, ``wildcard``, ...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.expr import Expr, ShapeExpr
from relax_mlir.objects.operators import get_op
from relax_mlir.tvm.relax.dpl.constrained import (
    AttrPattern,
    DataTypePattern,
    PrimArrPattern,
)
from relax_mlir.tvm.relax.dpl.structure import (
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    NotPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)

__all__ = [
    "has_attr",
    "has_dtype",
    "is_call_dps_packed",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "make_fused_bias_activation_pattern",
    "reject",
    "wildcard",
]


def is_var(name: str = "") -> VarPattern:
    """Match a variable, of a given name or of any."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """Match a dataflow variable."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """Match a global variable whose name contains ``name``."""
    return GlobalVarPattern(name)


def is_const() -> ConstantPattern:
    """Match a constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Match an expression structurally equal to ``expr``."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Match an operator.

    Raises:
        AttributeError: there is no operator with this name.
    """
    return ExprPattern(get_op(op_name))


def wildcard() -> WildcardPattern:
    """Match any expression."""
    return WildcardPattern()


def is_tuple(
    fields: Sequence[DFPattern], unordered: bool = False
) -> TuplePattern | UnorderedTuplePattern:
    """Match a tuple, with its fields in this order or in any.

    Raises:
        ValueError: ``fields`` is not a list.
    """
    if not isinstance(fields, (list, tuple)):
        raise ValueError(
            f"`is_tuple`: expected a list of patterns, got {short_repr(fields)}"
        )
    return (UnorderedTuplePattern if unordered else TuplePattern)(fields)


def is_tuple_get_item(
    tuple_value: DFPattern, index: int | None = None
) -> TupleGetItemPattern:
    """Match the access of a tuple element; ``index`` None is any element."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """Match a shape value.

    Raises:
        ValueError: ``shape`` is not a list.
    """
    if not isinstance(shape, (list, tuple, ShapeExpr)):
        raise ValueError(
            f"`is_shape`: expected a list of sizes, got {short_repr(shape)}"
        )
    return PrimArrPattern(shape)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Match a tensor with this element type."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Match a call or a function with these attributes."""
    return AttrPattern(pattern or wildcard(), attrs)


def reject(pattern: DFPattern) -> NotPattern:
    """Match any expression that ``pattern`` does not match."""
    return NotPattern(pattern)


def _dps_call(
    operator: str, callee: DFPattern, args: Sequence[DFPattern] | DFPattern | None
) -> CallPattern:
    if args is None:
        args = wildcard()
    elif not isinstance(args, DFPattern):
        args = TuplePattern(args)
    return is_op(operator)(callee, args, add_constraint=False)


def is_call_tir(
    func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None
) -> CallPattern:
    """Match a ``call_tir`` of a PrimFunc; ``args`` None is any arguments."""
    return _dps_call("relax.call_tir", GlobalVarPattern(func_name), args)


def is_call_dps_packed(
    func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None
) -> CallPattern:
    """Match a ``call_dps_packed`` of a packed function; ``args`` None is any arguments."""
    callee = ExternFuncPattern(func_name)
    return _dps_call("relax.call_dps_packed", callee, args)


def is_call_packed(
    func_name: str, args: Sequence[DFPattern] | None = None
) -> CallPattern:
    """Match a direct call of a packed function; ``args`` None is any arguments."""
    callee = ExternFuncPattern(func_name)
    if args is None:
        return callee(varg_default_wildcard=True, add_constraint=False)
    return callee(*args)


def make_fused_bias_activation_pattern(
    op_name: str,
    with_bias: bool = False,
    activation: str | None = None,
    allow_reshape: bool = False,
) -> DFPattern:
    """Match a binary operator with an optional bias addition and activation.

    Args:
        op_name: the operator, such as ``relax.nn.conv2d``.
        with_bias: a bias is added to the result.
        activation: activation operator applied last, or None.
        allow_reshape: the bias is reshaped before the addition.
    """
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            reshape = is_op("relax.reshape")
            bias = reshape(bias, wildcard(), varg_default_wildcard=True)
        out = is_op("relax.add")(out, bias, varg_default_wildcard=allow_reshape)
    return is_op(activation)(out) if activation else out
