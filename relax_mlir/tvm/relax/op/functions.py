"""Builder functions of operators, generated from the operation classes of the dialect."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import ext
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.errors import OperatorError, UnknownOperatorError, near_misses
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    DataTypeImm,
    Expr,
    Op,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    convert,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.operators import (
    argument_expr,
    operation_class,
    operator_names,
    optional_operands,
    typed_number,
)

__all__ = ["operator_function"]

# Operands that accept Python numbers as well as tensors.
_SCALARS = frozenset({"indices", "index", "value", "fill_value"})


@cache
def operator_function(name: str) -> Callable[..., Call]:
    """Create the builder function of the operator ``name``; it returns an unbound call.

    Its parameters are the operator's operands and attributes in Relax's order.

    Raises:
        AttributeError: there is no such operator.
    """
    kind = operation_class(name)
    if kind is None:
        raise UnknownOperatorError(
            f"there is no operator `{name}`.{near_misses(name, operator_names())}"
        )
    signature = _signature(kind)

    def build(*args: Any, **kwargs: Any) -> Call:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _call(kind, bound.arguments)

    build.__name__ = build.__qualname__ = name.rpartition(".")[2]
    build.__doc__ = kind.__doc__
    build.__signature__ = signature
    return build


def _signature(kind: type[RelaxOperation]) -> inspect.Signature:
    """Python signature: operands and attributes with their defaults.

    A required parameter after an optional one is keyword-only.
    """
    optional = dict.fromkeys(optional_operands(kind))
    defaults = {**optional, **kind.attribute_defaults()}
    order = [*kind.argument_order(), *kind.attribute_fields]
    names = [n for n in dict.fromkeys(order) if n != "operandSegmentSizes"]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults.get(name, inspect.Parameter.empty),
        )
        for name in names
    ]
    has_default = False
    for index, parameter in enumerate(parameters):
        has_default |= parameter.default is not parameter.empty
        if has_default and parameter.default is parameter.empty:
            parameters[index] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    parameters.sort(key=lambda p: p.kind)
    return inspect.Signature(parameters)


def _call(kind: type[RelaxOperation], values: Mapping[str, Any]) -> Call:
    """Builds the call from parameter values, with normalized attributes."""
    given = {n: v for n, v in values.items() if n in kind.attribute_fields}
    size = given.get("size")
    # A list of one size would be broadcast to all axes; a shape value would not.
    if isinstance(size, ShapeExpr) and len(size) == 1:
        raise OperatorError(
            f"`relax.{kind.script_name()}`: `size`: expected one size per axis, got "
            f"`{size}`"
        )
    if any(isinstance(v, Expr) and not isinstance(v, _VALUES) for v in given.values()):
        attrs = given  # an argument is computed at run time: nothing to normalize
    else:
        kept = kind.argument_attributes if kind.keeps_number_types else ()
        plain = {n: _plain(v, keeps_types=n in kept) for n, v in given.items()}
        attrs = _normalized(kind, plain)
    args: list[Expr] = []
    for name in kind.argument_order():
        if name in kind.operand_fields:
            if values[name] is not None or name not in optional_operands(kind):
                args.append(_operand(kind, name, values[name]))
        elif attrs[name] is not None:
            args.append(argument_expr(kind, name, attrs[name]))
    shown = {
        n: _attribute(v) for n, v in attrs.items() if n not in kind.argument_order()
    }
    return Call(Op.of(f"relax.{kind.script_name()}"), args, Attrs(shown))


def _normalized(kind: type[RelaxOperation], given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return kind.normalize_arguments(**given)
    except (ValueError, TypeError, AttributeError) as error:
        raise OperatorError(f"`relax.{kind.script_name()}`: {error}") from error


_VALUES = (PrimValue, ShapeExpr, StringImm, DataTypeImm)


def _plain(value: Any, *, keeps_types: bool) -> Any:
    """Converts an attribute argument to plain Python values.

    Args:
        value: a constant expression, a numpy scalar, or a (nested) list of these.
        keeps_types: numbers keep their element type, as numpy scalars.
    """
    if isinstance(value, (PrimValue, StringImm, DataTypeImm)):
        return _plain(value.value, keeps_types=keeps_types)
    if isinstance(value, (ShapeExpr, list, tuple)):
        items = value.values if isinstance(value, ShapeExpr) else value
        try:
            return tuple(_plain(item, keeps_types=keeps_types) for item in items)
        except RecursionError:
            raise TypeError(
                "attribute: nested too deeply, or contains itself"
            ) from None
    if isinstance(value, (prim.IntImm, prim.FloatImm)):
        return typed_number(value) if keeps_types else value.value
    if isinstance(value, np.generic) and not keeps_types:
        return value.item()
    if isinstance(value, np.ndarray) and value.ndim <= 1:
        return _plain(
            tuple(value) if value.ndim else value[()], keeps_types=keeps_types
        )
    return value


def _operand(kind: type[RelaxOperation], name: str, value: Any) -> Expr:
    if isinstance(value, numbers.Number) and name not in _SCALARS:
        raise TypeError(
            f"`relax.{kind.script_name()}`: argument `{name}` is {value!r}: expected a "
            "tensor. Convert it with `relax.const` first."
        )
    operand = convert(value)
    is_tensor = isinstance(operand.struct_info_or_none(), TensorStructInfo)
    wants_tuple = kind.operand_fields[name] == ext.Operand[ir.TupleType]
    return (
        Tuple([operand]) if name == "indices" and is_tensor and wants_tuple else operand
    )


def _attribute(value: Any) -> Any:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, list):
        return tuple(value)
    return value
