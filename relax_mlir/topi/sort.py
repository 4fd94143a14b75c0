"""Elements in order, by counting for every element those that come before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir import te
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, const
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import elements
from relax_mlir.topi.transform import checked_axis

__all__ = ["argsort", "sort", "topk"]


def _ranks(
    data: Tensor, axis: int, is_ascend: bool | int, valid_count: Tensor | None = None
) -> Tensor:
    """How many elements come before each along an axis; equal ones stay in order.

    Only so many as ``valid_count`` says are moved; the others stay behind them.
    """
    k = te.reduce_axis((0, data.shape[axis]), "k")

    def element(i: tuple[Any, ...]) -> Any:
        own, other = data(*i), data(*i[:axis], k.var, *i[axis + 1 :])
        is_less = other < own if is_ascend else other > own
        comes_first = te.any(is_less, te.all(other.equal(own), k.var < i[axis]))
        if valid_count is not None:
            valid = valid_count(*(*i[:axis], *i[axis + 1 :])[: valid_count.ndim])
            is_moved = te.all(k.var < valid, comes_first)
            comes_first = Select(i[axis] < valid, is_moved, k.var < i[axis])
        return te.sum(Select(comes_first, const(1), const(0)), axis=k)

    return elements(data.shape, element, "rank", "comm_reduce")


def _ordered(
    data: Tensor,
    axis: int,
    is_ascend: bool | int,
    size: Any,
    dtype: str,
    value: Callable[[tuple[Any, ...], Any], PrimExpr],
    name: str,
    valid_count: Tensor | None = None,
) -> Tensor:
    """``value`` of the first ``size`` places in order along an axis."""
    ranks = _ranks(data, axis, is_ascend, valid_count)
    k = te.reduce_axis((0, data.shape[axis]), "k")

    def element(i: tuple[Any, ...]) -> Any:
        place = (*i[:axis], k.var, *i[axis + 1 :])
        is_here = ranks(*place).equal(i[axis])
        return te.sum(Select(is_here, value(place, k.var), const(0, dtype)), axis=k)

    shape = [*data.shape[:axis], size, *data.shape[axis + 1 :]]
    return elements(shape, element, name, "comm_reduce")


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool | int = 1,
    dtype: str = "float32",
) -> Tensor:
    """Where the elements in order along an axis lie.

    Args:
        data: the tensor.
        valid_count: how many are put in order, along each line; None for all.
        axis: along which.
        is_ascend: whether the smallest element comes first.
        dtype: of the result.
    """
    place = checked_axis(axis, data.ndim, "argsort")
    return _ordered(
        *(data, place, is_ascend, data.shape[place], dtype),
        lambda _, index: prim.cast(dtype, index),
        "argsort_cpu",
        valid_count,
    )


def sort(data: Tensor, axis: int = -1, is_ascend: bool | int = 1) -> Tensor:
    """The elements in order along an axis."""
    place = checked_axis(axis, data.ndim, "sort")
    return _ordered(
        *(data, place, is_ascend, data.shape[place], data.dtype),
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
    """The largest elements along an axis, and where they are.

    Args:
        data: the tensor.
        k: how many; all if it is less than 1.
        axis: to look along.
        ret_type: ``values``, ``indices`` or ``both``.
        is_ascend: whether the smallest elements are wanted.
        dtype: of the indices.

    Returns:
        A tensor, or a list of values and indices.

    Raises:
        ValueError: ``ret_type`` is none of these.
    """
    if ret_type not in ("both", "values", "indices"):
        raise ValueError(f"topk: expected both, values or indices, got `{ret_type}`")
    place = checked_axis(axis, data.ndim, "topk")
    size = data.shape[place] if isinstance(k, int) and k < 1 else k
    ordered = (data, place, is_ascend, size)
    made = []
    if ret_type != "indices":
        values = (data.dtype, lambda i, _: data(*i), "topk_values")
        made.append(_ordered(*ordered, *values))
    if ret_type != "values":
        places = (dtype, lambda _, index: prim.cast(dtype, index), "topk_indices")
        made.append(_ordered(*ordered, *places))
    return made if len(made) > 1 else made[0]
