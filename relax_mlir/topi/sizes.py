"""Sizes and indices as operators compute with them; in TVM ``topi.utils``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir import te
from relax_mlir.argument_types import check_exports
from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.functions import indexdiv, indexmod
from relax_mlir.objects.prim import IntImm, PrimExpr, Select, const, convert
from relax_mlir.objects.prim.terms import Term
from relax_mlir.objects.simplify import simplify as _simplified
from relax_mlir.te import Tensor

__all__ = [
    "InvalidShapeError",
    "as_int",
    "ceil_div",
    "const_matrix",
    "const_vector",
    "elements",
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "get_float_tuple",
    "is_float",
    "is_one",
    "may_be_same",
    "places_of",
    "plain",
    "prod",
    "ravel_index",
    "same_size",
    "simplify",
    "unravel_index",
]


class InvalidShapeError(ValueError):
    """A shape is not what an operator can take."""


def elements(
    shape: Sequence[Term],
    body: Callable[[tuple[Any, ...]], Any],
    name: str,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor whose element at ``(ax0, ax1, ...)`` is ``body`` of that tuple."""
    names = [f"ax{i}" for i in range(len(shape))]
    return te.compute(shape, lambda *i: body(i), name, tag, attrs, names)


def plain(size: Any) -> PrimExpr:
    """A size in its plain form."""
    return _simplified(convert(size))


def simplify(expr: Any) -> Any:
    """A size or an element in its plain form; numbers stay what they are."""
    if isinstance(expr, Tensor):
        return te.compute(expr.shape, lambda *i: plain(expr(*i)), "simplify_output")
    return plain(expr) if isinstance(expr, PrimExpr) else expr


def as_int(size: Any) -> int | None:
    """The number that a size is, or None."""
    if isinstance(size, PrimExpr):
        size = _simplified(size)
    return int(size) if isinstance(size, (int, np.integer, IntImm)) else None


def is_one(size: Any) -> bool:
    """Whether a size is the number 1."""
    return as_int(size) == 1


def same_size(a: Term, b: Term) -> bool:
    """Whether two sizes are the same for all values of their variables."""
    return as_int(convert(a) - convert(b)) == 0


def may_be_same(a: Term, b: Term) -> bool:
    """Whether two sizes are the same for some values of their variables, as far as known.

    Sizes that differ by an expression may be: what holds of them is checked by a call.
    """
    return as_int(convert(a) - convert(b)) in (0, None)


def is_float(dtype: str) -> bool:
    """Whether numbers of a type have fractions."""
    return dtype.startswith(("float", "bfloat"))


def prod(sizes: Sequence[Term]) -> Any:
    """The product of sizes."""
    return math.prod(sizes, start=const(1, "int32"))


def get_const_int(expr: Any) -> int:
    """The integer that an expression is.

    Raises:
        ValueError: it depends on variables.
    """
    value = as_int(expr)
    if value is None:
        raise ValueError(f"expected a constant integer, got {shown(expr)}")
    return value


def get_const_float(expr: Any) -> float:
    """The number that an expression is.

    Raises:
        ValueError: it depends on variables.
    """
    term = plain(expr)
    if not isinstance(term, (prim.FloatImm, IntImm)):
        raise ValueError(f"expected a constant number, got `{expr}`")
    return float(term.value)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is the number ``value``."""
    return as_int(expr) == value


def get_const_tuple(in_tuple: Sequence[Term]) -> tuple[Any, ...]:
    """Sizes, those that are numbers as Python integers.

    Raises:
        TypeError: it is a tensor.
    """
    if isinstance(in_tuple, Tensor):
        raise TypeError("expected sizes, got a tensor. Its sizes are `tensor.shape`")
    numbers = [(size, as_int(size)) for size in in_tuple]
    return tuple(plain(s) if number is None else number for s, number in numbers)


def get_float_tuple(in_tuple: Sequence[Term]) -> tuple[float, ...]:
    """Constants as Python numbers."""
    return tuple(map(get_const_float, in_tuple))


def ravel_index(indices: Sequence[Term], shape: Sequence[Term]) -> Any:
    """The number of an element in row-major order."""
    total: Any = 0
    for position, (size, index) in enumerate(zip(shape, indices, strict=False)):
        total = convert(index) if position == 0 else total * size + index
    return total


def unravel_index(idx: Term, shape: Sequence[Term]) -> list[Any]:
    """Where the element with a number in row-major order lies."""
    indices: list[Any] = []
    for position, size in enumerate(reversed(shape)):
        if as_int(size) == 0:
            indices.append(0)
        elif position == len(shape) - 1:
            indices.append(idx)
        else:
            indices.append(indexmod(idx, size))
            idx = indexdiv(idx, size)
    return indices[::-1]


def places_of(number: Term, shape: Sequence[Term]) -> list[Any]:
    """Where an element lies; a number beyond the last one starts over."""
    found: list[Any] = []
    for size in reversed(shape):
        found.append(indexmod(number, size))
        number = indexdiv(number, size)
    return found[::-1]


def ceil_div(a: Term, b: Term) -> PrimExpr:
    """``a / b`` of sizes, rounded up."""
    return indexdiv(convert(a) + (b - 1), b)


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """A tensor of one dimension with given elements."""
    array = _array(vector, name)
    return _constant(array, name, None)


def const_matrix(
    matrix: Any, name: str = "const_matrix", attrs: Mapping[str, Any] | None = None
) -> Tensor:
    """A tensor of two dimensions with given elements."""
    known = {"const_matrix": True, "schedule_rule": "None"}
    return _constant(_array(matrix, name), name, known if attrs is None else attrs)


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"`{name}`: expected numbers, got {shown(values)}") from None


def _constant(array: np.ndarray, name: str, attrs: Mapping[str, Any] | None) -> Tensor:
    dtype = array.dtype.name
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}`: expected numbers, got {shown(array)}")

    def element(*indices: Any) -> PrimExpr:
        value: PrimExpr = const(0, dtype)
        for place in np.ndindex(array.shape):
            pairs = zip(indices, array.shape, place, strict=True)
            here = te.all(*(indexmod(i, size).equal(at) for i, size, at in pairs))
            value = Select(here, const(array[place].item(), dtype), value)
        return value

    return te.compute(array.shape, element, name, attrs=attrs)


check_exports(globals())
