"""Shape and index arithmetic for operators; ``topi.utils`` in TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IntImm, PrimExpr, Select, const, convert
from relax_mlir.objects.prim.intrinsics import indexdiv, indexmod
from relax_mlir.objects.prim.simplify import simplify as _simplify_expr
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor

__all__ = [
    "InvalidShapeError",
    "as_int",
    "ceil_div",
    "compute_tensor",
    "const_matrix",
    "const_vector",
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "get_float_tuple",
    "is_float",
    "is_one",
    "may_be_equal",
    "prod",
    "ravel_index",
    "same_size",
    "simplified",
    "simplify",
    "unravel_index",
    "unravel_index_wrapped",
]


class InvalidShapeError(ValueError):
    """Error: a shape that an operator does not accept."""


def compute_tensor(
    shape: Sequence[PrimExprLike],
    body: Callable[[tuple[Any, ...]], Any],
    name: str,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """``te.compute`` with axes ``ax0, ax1, ...`` and a body that takes the index tuple."""
    names = [f"ax{i}" for i in range(len(shape))]
    return te.compute(shape, lambda *i: body(i), name, tag, attrs, names)


def simplified(size: Any) -> PrimExpr:
    """Simplified form of a size expression."""
    return _simplify_expr(convert(size))


def simplify(expr: Any) -> Any:
    """Simplify an expression, or every element of a tensor; other values are returned."""
    if isinstance(expr, Tensor):
        return te.compute(
            expr.shape, lambda *i: simplified(expr(*i)), "simplify_output"
        )
    return simplified(expr) if isinstance(expr, PrimExpr) else expr


def as_int(size: Any) -> int | None:
    """Value of a constant size; None for a symbolic one."""
    if isinstance(size, PrimExpr):
        size = _simplify_expr(size)
    return int(size) if isinstance(size, (int, np.integer, IntImm)) else None


def is_one(size: Any) -> bool:
    """Whether a size is the constant 1."""
    return as_int(size) == 1


def same_size(a: PrimExprLike, b: PrimExprLike) -> bool:
    """Whether two sizes are provably equal."""
    return as_int(convert(a) - convert(b)) == 0


def may_be_equal(a: PrimExprLike, b: PrimExprLike) -> bool:
    """Whether two sizes are not provably different.

    The equality of symbolic sizes is checked when the function is called.
    """
    return as_int(convert(a) - convert(b)) in (0, None)


def is_float(dtype: str) -> bool:
    """Whether an element type is floating-point."""
    return dtype.startswith(("float", "bfloat"))


def prod(sizes: Sequence[PrimExprLike]) -> Any:
    """Product of sizes; int32 1 if there are none."""
    return math.prod(sizes, start=const(1, "int32"))


def get_const_int(expr: Any) -> int:
    """Value of a constant integer expression.

    Raises:
        ValueError: the expression is symbolic.
    """
    value = as_int(expr)
    if value is None:
        raise ValueError(f"expected a constant integer, got {short_repr(expr)}")
    return value


def get_const_float(expr: Any) -> float:
    """Value of a constant expression as a ``float``.

    Raises:
        ValueError: the expression is symbolic.
    """
    constant = simplified(expr)
    if not isinstance(constant, (prim.FloatImm, IntImm)):
        raise ValueError(f"expected a constant number, got `{expr}`")
    return float(constant.value)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is the constant ``value``."""
    return as_int(expr) == value


def get_const_tuple(in_tuple: Sequence[PrimExprLike]) -> tuple[Any, ...]:
    """Sizes as a tuple, with constants as Python integers.

    Raises:
        TypeError: the argument is a tensor.
    """
    if isinstance(in_tuple, Tensor):
        raise TypeError("expected sizes, got a tensor. Its sizes are `tensor.shape`")
    numbers = [(size, as_int(size)) for size in in_tuple]
    return tuple(simplified(s) if number is None else number for s, number in numbers)


def get_float_tuple(in_tuple: Sequence[PrimExprLike]) -> tuple[float, ...]:
    """Constant expressions as a tuple of Python floats."""
    return tuple(map(get_const_float, in_tuple))


def ravel_index(indices: Sequence[PrimExprLike], shape: Sequence[PrimExprLike]) -> Any:
    """Row-major flat index of a multi-index."""
    total: Any = 0
    for position, (size, index) in enumerate(zip(shape, indices, strict=False)):
        total = convert(index) if position == 0 else total * size + index
    return total


def unravel_index(idx: PrimExprLike, shape: Sequence[PrimExprLike]) -> list[Any]:
    """Multi-index of a row-major flat index, which must be in range."""
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


def unravel_index_wrapped(
    flat_index: PrimExprLike, shape: Sequence[PrimExprLike]
) -> list[Any]:
    """Multi-index of a row-major flat index; an index past the end wraps around."""
    indices: list[Any] = []
    for size in reversed(shape):
        indices.append(indexmod(flat_index, size))
        flat_index = indexdiv(flat_index, size)
    return indices[::-1]


def ceil_div(a: PrimExprLike, b: PrimExprLike) -> PrimExpr:
    """Ceiling division of sizes."""
    return indexdiv(convert(a) + (b - 1), b)


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """Constant vector as a tensor expression."""
    array = _array(vector, name)
    return _constant(array, name, None)


def const_matrix(
    matrix: Any, name: str = "const_matrix", attrs: Mapping[str, Any] | None = None
) -> Tensor:
    """Constant matrix as a tensor expression."""
    default_attrs = {"const_matrix": True, "schedule_rule": "None"}
    return _constant(
        _array(matrix, name), name, default_attrs if attrs is None else attrs
    )


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"`{name}`: expected numbers, got {short_repr(values)}"
        ) from None


def _constant(array: np.ndarray, name: str, attrs: Mapping[str, Any] | None) -> Tensor:
    dtype = array.dtype.name
    if array.dtype.kind not in "biuf":
        raise TypeError(f"`{name}`: expected numbers, got {short_repr(array)}")

    def element(*indices: Any) -> PrimExpr:
        value: PrimExpr = const(0, dtype)
        for position in np.ndindex(array.shape):
            pairs = zip(indices, array.shape, position, strict=True)
            is_match = te.all(*(indexmod(i, size).equal(at) for i, size, at in pairs))
            value = Select(is_match, const(array[position].item(), dtype), value)
        return value

    return te.compute(array.shape, element, name, attrs=attrs)


check_exports(globals())
