"""Reduction operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import integer_of, sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Select, const, intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import compute_tensor, is_one, ravel_index, same_size
from relax_mlir.tvm.topi.tag import COMM_REDUCE, COMM_REDUCE_IDX

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "collapse_sum",
    "max",
    "min",
    "prod",
    "sum",
]

Axis = int | Sequence[int] | None


def real_axes(rank: int, axis: Axis) -> list[int]:
    """Normalize axes: non-negative, sorted, without duplicates; all axes for None.

    Raises:
        ValueError: an axis is out of range.
    """
    if axis is None:
        return list(range(rank))
    is_one = isinstance(axis, (int, np.integer, prim.IntImm))
    given = [axis] if is_one else sequence_of(axis, "`axis`", "axes")
    normalized = set()
    for one in (integer_of(number, "`axis`") for number in given):
        if not -rank <= one < rank:
            raise ValueError(f"axis {one}: expected one of {rank} dimensions")
        normalized.add(one % rank)
    return sorted(normalized)


def _kept_shape(data: Tensor, axes: Sequence[int], keepdims: bool) -> list[Any]:
    if keepdims:
        return [const(1, s.dtype) if i in axes else s for i, s in enumerate(data.shape)]
    return [s for i, s in enumerate(data.shape) if i not in axes]


def _reduce_axes(data: Tensor, axes: Sequence[int]) -> list[IterVar]:
    return [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]


def reduce_along(
    data: Tensor,
    reducer: Callable[..., Any],
    shape: Sequence[PrimExprLike],
    axes: Sequence[int],
    squeezed: Sequence[int],
) -> Tensor:
    """Reduce a tensor along ``axes``.

    Args:
        reducer: the commutative reducer, of an expression and reduction axes.
        shape: shape of the result.
        axes: axes to reduce.
        squeezed: reduced axes that the result drops.
    """
    reduced = _reduce_axes(data, axes)

    def element(indices: tuple[Any, ...]) -> Any:
        return reducer(
            data(*_operand_indices(data.ndim, indices, reduced, axes, squeezed)),
            reduced,
        )

    return compute_tensor(shape, element, f"{data.op.name}_red", COMM_REDUCE)


def _operand_indices(
    rank: int,
    indices: Sequence[PrimExprLike],
    reduced: Sequence[Any],
    axes: Sequence[int],
    squeezed: Sequence[int],
) -> list[Any]:
    """Indices of the operand, from the indices of the result and the reduction axes."""
    out_indices, inner = iter(indices), iter(reduced)
    operand_indices = []
    for axis in range(rank):
        if axis not in axes:
            operand_indices.append(next(out_indices))
            continue
        operand_indices.append(next(inner).var)
        if axis not in squeezed:
            next(out_indices)
    return operand_indices


def _reduction(name: str, reducer: Callable[..., Any]) -> Callable[..., Tensor]:
    def apply(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        if data.ndim == 0:
            label = f"{data.op.name}_red"
            return compute_tensor((), lambda i: data(), label, COMM_REDUCE)
        axes = real_axes(data.ndim, axis)
        chosen = any_reducer if name == "sum" and data.dtype == "bool" else reducer
        shape = _kept_shape(data, axes, keepdims)
        return reduce_along(data, chosen, shape, axes, [] if keepdims else axes)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` reduction along axes, by default along all."
    return apply


any_reducer = intrinsics.comm_reducer(
    lambda a, b: prim.binary(prim.Or, a, b), lambda t: const(False, t), name="any"
)
_all_reducer = intrinsics.comm_reducer(
    lambda a, b: prim.binary(prim.And, a, b), lambda t: const(True, t), name="all"
)
sum = _reduction("sum", intrinsics.sum)
prod = _reduction("prod", intrinsics.prod)
max = _reduction("max", intrinsics.max)
min = _reduction("min", intrinsics.min)
all = _reduction("all", _all_reducer)
any = _reduction("any", any_reducer)


def collapse_sum(data: Tensor, target_shape: Sequence[PrimExprLike]) -> Tensor:
    """Sum over the axes along which ``target_shape`` broadcasts to ``data``'s shape.

    Raises:
        ValueError: ``target_shape`` has more dimensions, or does not broadcast.
    """
    if data.ndim < len(target_shape):
        raise ValueError(
            f"collapse_sum: expected a shape of at most {data.ndim} dimensions, got "
            f"{list(target_shape)}"
        )
    axes, squeezed = [], []
    remaining = list(target_shape)
    for axis in reversed(range(data.ndim)):
        if remaining and same_size(data.shape[axis], remaining[-1]):
            remaining.pop()
            continue
        axes.append(axis)
        if not remaining:
            squeezed.append(axis)
        elif is_one(remaining[-1]):
            remaining.pop()
    if remaining:
        raise ValueError(
            f"collapse_sum: expected a shape that broadcasts to {list(data.shape)}, got "
            f"{list(target_shape)}"
        )
    if not axes:
        return compute_tensor(data.shape, lambda i: data(*i), "tensor", COMM_REDUCE)
    return reduce_along(data, intrinsics.sum, target_shape, axes[::-1], squeezed)


def _index_reducer(
    name: str,
    is_better: Callable[[Any, Any], Any],
    worst: Callable[[str], PrimExpr],
    is_last: bool,
) -> Callable[..., Any]:
    """Make an argmin/argmax reducer: keeps the better of two (index, value) pairs."""

    def combine(lhs: Sequence[Any], rhs: Sequence[Any]) -> tuple[PrimExpr, PrimExpr]:
        better = is_better(lhs[1], rhs[1])
        order = lhs[0] > rhs[0] if is_last else lhs[0] < rhs[0]
        keeps_lhs = te.any(better, te.all(lhs[1].equal(rhs[1]), order))
        return Select(keeps_lhs, lhs[0], rhs[0]), Select(better, lhs[1], rhs[1])

    return intrinsics.comm_reducer(
        combine, lambda index, value: (const(-1, index), worst(value)), name=name
    )


def _index_reduction(
    name: str, is_better: Callable[[Any, Any], Any], worst: Callable[[str], PrimExpr]
) -> Callable[..., Tensor]:
    def apply(
        data: Tensor,
        axis: Axis = None,
        keepdims: bool = False,
        select_last_index: bool = False,
    ) -> Tensor:
        if data.ndim == 0:
            raise ValueError(
                f"`{name}`: expected a tensor with dimensions, got a scalar"
            )
        axes = real_axes(data.ndim, axis)
        reduced = _reduce_axes(data, axes)
        reducer = _index_reducer(name, is_better, worst, select_last_index)
        squeezed = [] if keepdims else axes
        sizes = [data.shape[i] for i in axes]

        def element(indices: tuple[Any, ...]) -> Any:
            operand_indices = _operand_indices(
                data.ndim, indices, reduced, axes, squeezed
            )
            index = ravel_index([operand_indices[i] for i in axes], sizes)
            return reducer((index, data(*operand_indices)), reduced)

        shape = _kept_shape(data, axes, keepdims)
        label = f"{data.op.name}_red"
        arg, _ = compute_tensor(shape, element, f"{label}_temp", COMM_REDUCE_IDX)
        return compute_tensor(shape, lambda i: arg(*i), label, COMM_REDUCE_IDX)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"Index of the {name[3:]} along axes; of equal elements, the first or the last."
    )
    return apply


argmax = _index_reduction("argmax", lambda a, b: a > b, intrinsics.min_value)
argmin = _index_reduction("argmin", lambda a, b: a < b, intrinsics.max_value)
