"""Short names that make patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects.expr import Expr, ShapeExpr
from relax_mlir.objects.operators import get_op
from relax_mlir.relax.dpl.constrained import (
    AttrPattern,
    DataTypePattern,
    PrimArrPattern,
)
from relax_mlir.relax.dpl.structure import (
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
    """A variable, with a name or any."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A variable that only its dataflow block sees."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module."""
    return GlobalVarPattern(name)


def is_const() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """One expression."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """An operator.

    Raises:
        AttributeError: there is none with this name.
    """
    return ExprPattern(get_op(op_name))


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def is_tuple(
    fields: Sequence[DFPattern], unordered: bool = False
) -> TuplePattern | UnorderedTuplePattern:
    """A tuple, with its fields in this order or any.

    Raises:
        ValueError: ``fields`` is no list.
    """
    if not isinstance(fields, (list, tuple)):
        raise ValueError(
            f"`is_tuple`: expected a list of patterns, got {shown(fields)}"
        )
    return (UnorderedTuplePattern if unordered else TuplePattern)(fields)


def is_tuple_get_item(
    tuple_value: DFPattern, index: int | None = None
) -> TupleGetItemPattern:
    """An element of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """A shape as a value.

    Raises:
        ValueError: it is no list.
    """
    if not isinstance(shape, (list, tuple, ShapeExpr)):
        raise ValueError(f"`is_shape`: expected a list of sizes, got {shown(shape)}")
    return PrimArrPattern(shape)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """A tensor with these elements."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """A call or a function with these attributes."""
    return AttrPattern(pattern or wildcard(), attrs)


def reject(pattern: DFPattern) -> NotPattern:
    """All that ``pattern`` does not match."""
    return NotPattern(pattern)


def _destination_passing(
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
    """A call of a tensor program of the module; ``args`` None is any."""
    return _destination_passing("relax.call_tir", GlobalVarPattern(func_name), args)


def is_call_dps_packed(
    func_name: str, args: Sequence[DFPattern] | TuplePattern | None = None
) -> CallPattern:
    """A call of a registered function that writes its result; ``args`` None is any."""
    callee = ExternFuncPattern(func_name)
    return _destination_passing("relax.call_dps_packed", callee, args)


def is_call_packed(
    func_name: str, args: Sequence[DFPattern] | None = None
) -> CallPattern:
    """A call of a registered function; ``args`` None is any."""
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
    """An operator of two arguments, with the addition and the activation after it.

    Args:
        op_name: the operator, such as ``relax.nn.conv2d``.
        with_bias: whether something is added to it.
        activation: the operator applied last, or None.
        allow_reshape: whether what is added is reshaped.
    """
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            reshape = is_op("relax.reshape")
            bias = reshape(bias, wildcard(), varg_default_wildcard=True)
        out = is_op("relax.add")(out, bias, varg_default_wildcard=allow_reshape)
    return is_op(activation)(out) if activation else out
