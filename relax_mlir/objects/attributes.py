"""Python values as MLIR attributes that nobody but us reads, and back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import shown
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
    """The name of an array that an attribute holds, and the array.

    In MLIR the attribute is the key of a constant of the module; a module that the
    attribute is written to gets the array.

    Attributes:
        array: None where only the name is known.
    """

    array: np.ndarray | None

    def __new__(cls, name: str, array: Any = None) -> ArrayName:  # noqa: PYI034  Any: has DLPack
        """Name an array; one of the runtime is read."""
        made = super().__new__(cls, name)
        made.array = array.numpy() if hasattr(array, "numpy") else array
        return made

    def numpy(self) -> np.ndarray:
        """The array.

        Raises:
            ValueError: only its name is known.
        """
        if self.array is None:
            raise ValueError(f"array `{self}`: the module does not hold it")
        return self.array


def named_arrays(
    value: Any, visit: Callable[[ArrayName], ArrayName]
) -> Any:  # Any: see ``to_attribute``
    """A value with what ``visit`` gives in place of every array in it."""
    if isinstance(value, ArrayName):
        return visit(value)
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
        return visit(ArrayName("param", value))
    if isinstance(value, Mapping):
        made = {k: named_arrays(v, visit) for k, v in value.items()}
        return Attrs(made) if isinstance(value, Attrs) else made
    if isinstance(value, (tuple, list)):
        return type(value)(named_arrays(v, visit) for v in value)
    return value


def to_attribute(value: Any) -> ir.Attribute:  # Any: see ``from_attribute``
    """An attribute that holds a Python value.

    Numbers, strings, booleans, None, names of arrays, and tuples, lists and dictionaries
    of them.

    Raises:
        ValueError: it is something else.
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
    return _term_to_attribute(value)


_BYTES = "relax.bytes"
_LARGEST = 2**63  # integers are kept in 64 bits


def _key(name: object) -> str:
    """The name of an attribute; MLIR ends the process where one is empty.

    Raises:
        ValueError: it is empty, or no text.
    """
    if not (text := _text(str(name))):
        raise ValueError("expected names of attributes, got an empty one")
    return text


def _text(text: str) -> str:
    """A text that MLIR takes.

    Raises:
        ValueError: it has no form in UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected text in UTF-8, got {shown(text)}") from None
    return text


def _integer(value: int) -> ir.Attribute:
    """A number of 64 bits.

    Raises:
        ValueError: it does not fit.
    """
    if not -_LARGEST <= value < _LARGEST:
        raise ValueError(f"expected an integer of 64 bits, got {value}")
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def _term_to_attribute(value: Any) -> ir.Attribute:
    """A number that is wrapped as a term or an expression."""
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
    except Exception:  # it is the value's own
        text = None
    if text is None:
        raise ValueError(
            f"expected a number, a string or a list of them, got {shown(value)}"
        )
    return ir.StringAttr.get(text)


def from_attribute(attr: ir.Attribute) -> Any:  # Any: as many types as attributes
    """The Python value that :func:`to_attribute` made an attribute of."""
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
