"""Reductions, matmul, scans and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.nn.tensor import Tensor, wrap_nested
from relax_mlir.tvm.relax import op

__all__ = ["argsort", "cumsum", "matmul", "max", "min", "sort", "sum", "topk"]


def sum(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "sum",
) -> Tensor:
    """Sum along axes, by default all."""
    return wrap_nested(op.sum(x.as_expr(), axis, keepdims), name)


def max(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "max",
) -> Tensor:
    """Maximum along axes, by default all."""
    return wrap_nested(op.max(x.as_expr(), axis, keepdims), name)


def min(
    x: Tensor,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    name: str = "min",
) -> Tensor:
    """Minimum along axes, by default all."""
    return wrap_nested(op.min(x.as_expr(), axis, keepdims), name)


def matmul(
    a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul"
) -> Tensor:
    """Matmul, batched over leading dimensions."""
    value = op.matmul(a.as_expr(), b.as_expr(), out_dtype=out_dtype)
    return wrap_nested(value, name)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
    name: str = "cumsum",
) -> Tensor:
    """Cumulative sum.

    Args:
        data: the tensor.
        axis: the axis; None for the flattened tensor.
        dtype: element type of the sums.
        exclusive: whether a sum excludes the element itself.
        name: name of the result variable.
    """
    options: dict[str, Any] = {} if exclusive is None else {"exclusive": exclusive}
    return wrap_nested(op.cumsum(data.as_expr(), axis, dtype, **options), name)


def sort(
    x: Tensor, axis: int = -1, descending: bool = False, name: str = "sort"
) -> Tensor:
    """Sorted elements along an axis."""
    return wrap_nested(op.sort(x.as_expr(), axis, descending), name)


def argsort(
    data: Tensor,
    axis: int = -1,
    descending: bool = False,
    dtype: str = "int32",
    name: str = "argsort",
) -> Tensor:
    """Indices that sort an axis."""
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
    """The ``k`` largest or smallest elements along an axis, sorted, and their indices.

    Args:
        data: the tensor.
        k: the number of elements.
        axis: the axis.
        ret_type: ``both``, ``values`` or ``indices``.
        largest: whether to return the largest elements.
        dtype: element type of the indices.
        name: name of the result variable.
    """
    value = op.topk(data.as_expr(), k, axis, ret_type, largest, dtype)
    return wrap_nested(value, name)
