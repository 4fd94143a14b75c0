"""Operators that combine elements along axes, and that sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.relax import op

__all__ = ["argsort", "cumsum", "matmul", "max", "min", "sort", "sum", "topk"]


def sum(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "sum",
) -> Tensor:
    """The sum along some axes, or all."""
    return wrap_nested(op.sum(x.as_expr(), axis, keepdims), name)


def max(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "max",
) -> Tensor:
    """The largest element along some axes, or all."""
    return wrap_nested(op.max(x.as_expr(), axis, keepdims), name)


def min(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "min",
) -> Tensor:
    """The smallest element along some axes, or all."""
    return wrap_nested(op.min(x.as_expr(), axis, keepdims), name)


def matmul(
    a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul"
) -> Tensor:
    """The matrix product; leading dimensions are batches."""
    value = op.matmul(a.as_expr(), b.as_expr(), out_dtype=out_dtype)
    return wrap_nested(value, name)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """Sums of all elements up to each one.

    Args:
        data: the tensor.
        axis: along which; None for the flattened tensor.
        dtype: element type of the sums.
        exclusive: whether the element itself is left out.
        name: what the graph calls it.
    """
    options: dict[str, Any] = {} if exclusive is None else {"exclusive": exclusive}
    return wrap_nested(op.cumsum(data.as_expr(), axis, dtype, **options), name)


def sort(
    x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort"
) -> Tensor:
    """The elements in order along an axis."""
    return wrap_nested(op.sort(x.as_expr(), axis, descending), name)


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    """Where the elements in order along an axis stand."""
    return wrap_nested(op.argsort(data.as_expr(), axis, descending, dtype), name)


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: str = "int32",
    name: str = "topk",
) -> Any:
    """The first ``k`` elements in order along an axis, and where they stand.

    Args:
        data: the tensor.
        k: how many.
        axis: along which.
        ret_type: ``both``, ``values`` or ``indices``.
        largest: whether the largest come first.
        dtype: element type of the indices.
        name: what the graph calls it.
    """
    value = op.topk(data.as_expr(), k, axis, ret_type, largest, dtype)
    return wrap_nested(value, name)
