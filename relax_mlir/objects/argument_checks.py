"""Type checks of the arguments of constructors and operators."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from relax_mlir.errors import string_of_argument

__all__ = [
    "dtype_of",
    "dtype_text",
    "instance_of",
    "integer_of",
    "mapping_of",
    "sequence_of",
]

T = TypeVar("T")


def sequence_of(values: Any, where: str, what: str) -> tuple[Any, ...]:
    """The elements of a sequence as a tuple; strings are rejected.

    Raises:
        TypeError: the value is not a sequence.
    """
    is_text = isinstance(values, (str, bytes))
    if is_text or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        kind = type(values).__name__
        raise TypeError(f"{where}: expected a sequence of {what}, got {kind}")
    return tuple(values)


def mapping_of(values: Any, where: str) -> dict[Any, Any]:
    """A copy of a mapping; empty for None.

    Raises:
        TypeError: the value is not a mapping.
    """
    if values is not None and not isinstance(values, Mapping):
        kind = type(values).__name__
        raise TypeError(f"{where}: expected a dictionary, got {kind}")
    return dict(values or {})


def instance_of(
    value: Any, kind: type[T] | tuple[type[T], ...], where: str, what: str
) -> T:
    """The value, checked to be an instance of a class.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{where}: expected {what}, got {type(value).__name__}")
    return value


def dtype_of(value: Any, where: str) -> str:
    """The name of an element type: a string or a numpy dtype.

    Raises:
        TypeError: the value is not an element type.
    """
    if isinstance(value, str):
        return value
    return str(instance_of(value, np.dtype, where, "an element type"))


def dtype_text(value: Any, where: str) -> str:
    """The name of an element type, or of the ``dtype`` of a value.

    Raises:
        TypeError: the value has none.
    """
    return string_of_argument(getattr(value, "dtype", value), where, "an element type")


def integer_of(value: Any, where: str) -> int:
    """An integer as a Python int; numpy integers are accepted.

    Raises:
        TypeError: the value is not an integer.
    """
    try:
        return operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{where}: expected an integer, got {kind}") from None
