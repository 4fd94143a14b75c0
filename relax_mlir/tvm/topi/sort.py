"""Sort, argsort and top-k by rank: the number of elements that precede each one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import compute_tensor
from relax_mlir.tvm.topi.transform import checked_axis

__all__ = ["argsort", "sort", "topk"]


def _ranks(
    data: Tensor, axis: int, is_ascend: bool | int, valid_count: Tensor | None = None
) -> Tensor:
    """Rank of every element along an axis; the order is stable.

    Only the first ``valid_count`` elements are sorted; the others keep their positions.
    """
    k = te.reduce_axis((0, data.shape[axis]), "k")

    def element(i: tuple[Any, ...]) -> Any:
        own, other = data(*i), data(*i[:axis], k.var, *i[axis + 1 :])
        is_less = other < own if is_ascend else other > own
        precedes = te.any(is_less, te.all(other.equal(own), k.var < i[axis]))
        if valid_count is not None:
            valid = valid_count(*(*i[:axis], *i[axis + 1 :])[: valid_count.ndim])
            precedes_valid = te.all(k.var < valid, precedes)
            precedes = Select(i[axis] < valid, precedes_valid, k.var < i[axis])
        return te.sum(Select(precedes, const(1), const(0)), axis=k)

    return compute_tensor(data.shape, element, "rank", "comm_reduce")


def _sorted(
    data: Tensor,
    axis: int,
    is_ascend: bool | int,
    size: Any,
    dtype: str,
    value: Callable[[tuple[Any, ...], Any], PrimExpr],
    name: str,
    valid_count: Tensor | None = None,
) -> Tensor:
    """``value`` at the first ``size`` positions of the sorted order along an axis."""
    ranks = _ranks(data, axis, is_ascend, valid_count)
    k = te.reduce_axis((0, data.shape[axis]), "k")

    def element(i: tuple[Any, ...]) -> Any:
        source = (*i[:axis], k.var, *i[axis + 1 :])
        is_here = ranks(*source).equal(i[axis])
        return te.sum(Select(is_here, value(source, k.var), const(0, dtype)), axis=k)

    shape = [*data.shape[:axis], size, *data.shape[axis + 1 :]]
    return compute_tensor(shape, element, name, "comm_reduce")


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool | int = 1,
    dtype: str = "float32",
) -> Tensor:
    """Indices that sort a tensor along an axis.

    Args:
        data: the tensor.
        valid_count: number of leading elements to sort, per slice; None for all.
        axis: axis to sort.
        is_ascend: whether the order is ascending.
        dtype: element type of the result.
    """
    dim = checked_axis(axis, data.ndim, "argsort")
    return _sorted(
        *(data, dim, is_ascend, data.shape[dim], dtype),
        lambda _, index: prim.cast(dtype, index),
        "argsort_cpu",
        valid_count,
    )


def sort(data: Tensor, axis: int = -1, is_ascend: bool | int = 1) -> Tensor:
    """Sort a tensor along an axis."""
    dim = checked_axis(axis, data.ndim, "sort")
    return _sorted(
        *(data, dim, is_ascend, data.shape[dim], data.dtype),
        lambda i, _: data(*i),
        "sort_cpu",
    )


def topk(
    data: Tensor,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Any:
    """The ``k`` largest elements along an axis, and their indices.

    Args:
        data: the tensor.
        k: number of elements; all if it is less than 1.
        axis: axis to search.
        ret_type: ``values``, ``indices`` or ``both``.
        is_ascend: whether to return the smallest elements instead.
        dtype: element type of the indices.

    Returns:
        A tensor, or a list of values and indices.

    Raises:
        ValueError: ``ret_type`` is unknown.
    """
    if ret_type not in ("both", "values", "indices"):
        raise ValueError(f"topk: expected both, values or indices, got `{ret_type}`")
    dim = checked_axis(axis, data.ndim, "topk")
    size = data.shape[dim] if isinstance(k, int) and k < 1 else k
    ordered = (data, dim, is_ascend, size)
    results = []
    if ret_type != "indices":
        values = (data.dtype, lambda i, _: data(*i), "topk_values")
        results.append(_sorted(*ordered, *values))
    if ret_type != "values":
        indices = (dtype, lambda _, index: prim.cast(dtype, index), "topk_indices")
        results.append(_sorted(*ordered, *indices))
    return results if len(results) > 1 else results[0]
