"""Constants, scalar and string values, and tuples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.errors import MissingElementError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import (
    dtype_text,
    instance_of,
    integer_of,
    sequence_of,
)
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    checked_element,
)
from relax_mlir.objects.prim import PrimExpr

__all__ = [
    "ArrayData",
    "Constant",
    "DataTypeImm",
    "PrimValue",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "const",
    "convert",
]


class ArrayData(np.ndarray):
    """The data of a constant: a numpy array with the methods of TVM's tensors."""

    def numpy(self) -> np.ndarray:
        """The data as a plain numpy array."""
        return self.view(np.ndarray)

    asnumpy = numpy


class Constant(Expr):
    """A constant tensor.

    Attributes:
        data: its elements; ``data.numpy()`` is a numpy array.
    """

    def __init__(self, data: Any, struct_info: Any = None, span: object = None) -> None:
        array = data.numpy() if hasattr(data, "numpy") else data
        try:
            self.array = np.asarray(array)
        except (TypeError, ValueError):  # ragged nested lists
            self.array = np.array(None)
        if self.array.dtype.kind not in "biufcV":
            raise TypeError(
                f"Constant: expected an array of numbers, got {short_repr(data)}"
            )
        own = TensorStructInfo(self.array.shape, self.array.dtype.name)
        self._struct_info = own if struct_info is None else struct_info

    @property
    def data(self) -> ArrayData:
        """Its data."""
        return self.array.view(ArrayData)


class PrimValue(Expr):
    """A scalar expression as a Relax value."""

    def __init__(self, value: Any, span: object = None) -> None:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        self.value: PrimExpr = (
            prim.IntImm("int64", value) if is_number else prim.convert(value)
        )
        self._struct_info = PrimStructInfo(value=self.value)

    @property
    def ty(self) -> StructInfo:
        """Its element type; in TVM's newest releases types carry no value."""
        return PrimStructInfo(self.value.dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrimValue):
            return False
        return self.struct_info == other.struct_info

    def __hash__(self) -> int:
        return hash(self.value)


class StringImm(Expr):
    """A string as a Relax value."""

    def __init__(self, value: str, span: object = None) -> None:
        self.value = instance_of(value, str, "StringImm: `value`", "a string")
        self._struct_info = ObjectStructInfo()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.value == other
        return isinstance(other, StringImm) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class DataTypeImm(Expr):
    """An element type as a Relax value."""

    def __init__(self, value: str, span: object = None) -> None:
        self.value = dtype_text(value, "DataTypeImm: `value`")
        self._struct_info = ObjectStructInfo()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataTypeImm) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Tuple(Expr):
    """A tuple of values."""

    def __init__(self, fields: Any, span: object = None) -> None:
        listed = sequence_of(fields, "Tuple", "expressions")
        try:
            self.fields: tuple[Expr, ...] = tuple(map(convert, listed))
        except RecursionError:
            raise TypeError("Tuple: nested too deeply, or holds itself") from None

    def struct_info_or_none(self) -> StructInfo | None:
        known = [f.struct_info_or_none() for f in self.fields]
        if any(k is None for k in known):
            return None
        return TupleStructInfo([k for k in known if k is not None])

    def __getitem__(self, index: Any) -> Any:
        return checked_element(self.fields, index, "Tuple")

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.fields)


class TupleGetItem(Expr):
    """A field of a tuple."""

    def __init__(self, tuple_value: Expr, index: int, span: object = None) -> None:
        where = "TupleGetItem"
        self.tuple_value = instance_of(tuple_value, Expr, where, "an expression")
        self.index = integer_of(index, where)
        info = tuple_value.struct_info_or_none()
        if isinstance(info, TupleStructInfo) and not 0 <= self.index < len(info.fields):
            raise MissingElementError(
                f"`{tuple_value!r}`: expected an index below its length, which is "
                f"{len(info.fields)}, got {self.index}"
            )

    def struct_info_or_none(self) -> StructInfo | None:
        info = self.tuple_value.struct_info_or_none()
        if isinstance(info, TupleStructInfo):
            return info.fields[self.index]
        return None if info is None else ObjectStructInfo()


def const(value: Any, dtype: Any = None) -> Constant:
    """A tensor constant.

    Args:
        value: Python numbers and nested lists, numpy arrays, or tensors with ``numpy()``.
        dtype: element type; by default that of the value, except that 64-bit Python
            numbers and numpy arrays become int32 and float32.

    Raises:
        ValueError: the value is not an array of numbers.
    """
    if isinstance(value, Constant):
        value = value.data
    is_tensor = hasattr(value, "numpy")
    try:
        array = np.asarray(value.numpy() if is_tensor else value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"const: expected an array of numbers: {error}") from error
    if dtype is None and not is_tensor:
        dtype = {"float64": "float32", "int64": "int32"}.get(array.dtype.name)
    if array.dtype.kind not in "biufV":
        raise ValueError(f"expected numbers, got {short_repr(value)}")
    if dtype is not None:
        name = dtype_text(getattr(dtype, "name", dtype), "const: `dtype`")
        try:
            array = array.astype(getattr(ml_dtypes, name, None) or name)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"const: element type `{name}`: {error}") from error
    return Constant(array)


def convert(value: Any) -> Expr:
    """Converts a Python value to an expression: tuples, numbers, strings, scalar expressions.

    Raises:
        TypeError: the value has no expression.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, (tuple, list)):
        return Tuple(value)
    if isinstance(value, (PrimExpr, prim.IterVar, int, float, np.number, np.bool_)):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, np.ndarray):
        return Constant(value)
    as_expr = getattr(value, "as_expr", None)
    if as_expr is not None:
        return as_expr()
    raise TypeError(f"expected an expression, got {short_repr(value)}")
