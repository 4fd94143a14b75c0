"""Conversion between Python values and MLIR attributes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Attrs,
    Constant,
    Expr,
    PrimValue,
    ShapeExpr,
    StringImm,
)

__all__ = ["ArrayName", "from_attribute", "named_arrays", "to_attribute"]


class ArrayName(str):
    """An array in an attribute: its key in the module's constant pool, and its data.

    In MLIR the attribute holds the key only; writing it to a module adds the data to the pool.

    Attributes:
        array: the data; None if only the key is known.
    """

    array: np.ndarray | None

    def __new__(cls, name: str, array: Any = None) -> ArrayName:  # noqa: PYI034  Any: has DLPack
        """Creates a key; ``array`` may be a numpy array or a runtime tensor."""
        result = super().__new__(cls, name)
        result.array = array.numpy() if hasattr(array, "numpy") else array
        return result

    def numpy(self) -> np.ndarray:
        """The data.

        Raises:
            ValueError: only the key is known.
        """
        if self.array is None:
            raise ValueError(f"array `{self}`: the module does not hold it")
        return self.array


def named_arrays(
    value: Any, visit: Callable[[ArrayName], ArrayName]
) -> Any:  # Any: see ``to_attribute``
    """A value with all its arrays mapped by ``visit``."""
    if isinstance(value, ArrayName):
        return visit(value)
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return visit(ArrayName("param", value))
    if isinstance(value, Mapping):
        result = {k: named_arrays(v, visit) for k, v in value.items()}
        return Attrs(result) if isinstance(value, Attrs) else result
    if isinstance(value, (tuple, list)):
        return type(value)(named_arrays(v, visit) for v in value)
    return value


def to_attribute(value: Any) -> ir.Attribute:  # Any: see ``from_attribute``
    """Converts a Python value to an attribute.

    Supports numbers, strings, bytes, booleans, None, array keys, and tuples, lists, sets and
    dictionaries of them.

    Raises:
        ValueError: the value is of another type or not representable.
    """
    if isinstance(value, ir.Attribute):
        return value
    if value is None:
        return ir.UnitAttr.get()
    if isinstance(value, (bool, np.bool_)):
        return ir.BoolAttr.get(bool(value))
    if isinstance(value, (int, np.integer)):
        return _integer(int(value))
    if isinstance(value, (float, np.floating)):
        type_ = ir.F64Type.get()
        return ir.FloatAttr.get(type_, float(value), ir.Location.unknown())
    if isinstance(value, str):
        is_name = isinstance(value, ArrayName)
        return ConstantOp.named(value) if is_name else ir.StringAttr.get(_text(value))
    if isinstance(value, bytes):
        return to_attribute({_BYTES: base64.b64encode(value).decode()})
    if isinstance(value, Mapping):
        return ir.DictAttr.get({_key(k): to_attribute(v) for k, v in value.items()})
    if isinstance(value, (tuple, list, frozenset, set, ShapeExpr)):
        return ir.ArrayAttr.get([to_attribute(v) for v in value])
    return _expr_to_attribute(value)


_BYTES = "relax.bytes"
_LARGEST = 2**63  # integers are stored in 64 bits


def _key(name: object) -> str:
    """An attribute name; MLIR aborts on an empty one.

    Raises:
        ValueError: the name is empty or not encodable in UTF-8.
    """
    if not (text := _text(str(name))):
        raise ValueError("expected names of attributes, got an empty one")
    return text


def _text(text: str) -> str:
    """A string, checked to be encodable in UTF-8.

    Raises:
        ValueError: it is not.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text in UTF-8, got {short_repr(text)}") from None
    return text


def _integer(value: int) -> ir.Attribute:
    """A 64-bit integer attribute.

    Raises:
        ValueError: the value does not fit.
    """
    if not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"expected an integer of 64 bits, got {value}")
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _expr_to_attribute(value: Any) -> ir.Attribute:
    """The attribute of a scalar expression or a constant expression."""
    if isinstance(value, prim.IntImm):
        is_bool = value.dtype == "bool"
        return to_attribute(bool(value.value) if is_bool else value.value)
    if isinstance(value, (prim.FloatImm, prim.StringImm, StringImm, PrimValue)):
        return to_attribute(value.value)
    if isinstance(value, Constant):
        return to_attribute(value.array.tolist())
    if hasattr(value, "script_text"):
        return ir.StringAttr.get(value.script_text())
    try:
        text = None if isinstance(value, Expr) else _text(str(value))
    except Exception:  # raised by the value's own __str__
        text = None
    if text is None:
        raise ValueError(
            f"expected a number, a string or a list of them, got {short_repr(value)}"
        )
    return ir.StringAttr.get(text)


def from_attribute(attr: ir.Attribute) -> Any:  # Any: the type depends on the attribute
    """The Python value of an attribute of :func:`to_attribute`."""
    if isinstance(attr, ir.UnitAttr):
        return None
    if isinstance(attr, ir.DictAttr):
        values = {named.name: from_attribute(named.attr) for named in attr}
        if set(values) == {_BYTES}:
            return base64.b64decode(values[_BYTES])
        return Attrs(values)
    if isinstance(attr, ir.ArrayAttr):
        return tuple(map(from_attribute, attr))
    if isinstance(attr, ir.FlatSymbolRefAttr):
        return attr.value
    if isinstance(attr, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attr.value
    key = ConstantOp.key_of(attr)
    return str(attr) if key is None else ArrayName(key)
