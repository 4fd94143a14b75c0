"""Operators that combine the elements along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.argument_checks import integer_of, sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Select, const
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import elements, is_one, ravel_index, same_size
from relax_mlir.topi.tag import COMM_REDUCE, COMM_REDUCE_IDX

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
    """Axes counted from the front, sorted, each once; all if None is given.

    Raises:
        ValueError: there is no such axis.
    """
    if axis is None:
        return list(range(rank))
    is_one = isinstance(axis, (int, np.integer, prim.IntImm))
    listed = [axis] if is_one else sequence_of(axis, "`axis`", "axes")
    found = set()
    for one in (integer_of(number, "`axis`") for number in listed):
        if not -rank <= one < rank:
            raise ValueError(f"axis {one}: expected one of {rank} dimensions")
        found.add(one % rank)
    return sorted(found)


def _kept_shape(data: Tensor, axes: Sequence[int], keepdims: bool) -> list[Any]:
    if keepdims:
        return [const(1, s.dtype) if i in axes else s for i, s in enumerate(data.shape)]
    return [s for i, s in enumerate(data.shape) if i not in axes]


def _reduce_axes(data: Tensor, axes: Sequence[int]) -> list[IterVar]:
    return [te.reduce_axis((0, data.shape[i]), f"k{i}") for i in axes]


def reduce_along(
    data: Tensor,
    reducer: Callable[..., Any],
    shape: Sequence[Term],
    axes: Sequence[int],
    squeezed: Sequence[int],
) -> Tensor:
    """The elements along ``axes`` combined.

    Args:
        reducer: what combines an expression over reduce axes.
        shape: of the result.
        axes: to combine over.
        squeezed: those that the result has not.
    """
    reduced = _reduce_axes(data, axes)

    def element(indices: tuple[Any, ...]) -> Any:
        return reducer(
            data(*_places(data.ndim, indices, reduced, axes, squeezed)), reduced
        )

    return elements(shape, element, f"{data.op.name}_red", COMM_REDUCE)


def _places(
    rank: int,
    indices: Sequence[Term],
    reduced: Sequence[Any],
    axes: Sequence[int],
    squeezed: Sequence[int],
) -> list[Any]:
    """The indices of what is reduced, from those of the result and the reduce axes."""
    own, inner = iter(indices), iter(reduced)
    places = []
    for axis in range(rank):
        if axis not in axes:
            places.append(next(own))
            continue
        places.append(next(inner).var)
        if axis not in squeezed:
            next(own)
    return places


def _reduction(name: str, reducer: Callable[..., Any]) -> Callable[..., Tensor]:
    def apply(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
        if data.ndim == 0:
            label = f"{data.op.name}_red"
            return elements((), lambda i: data(), label, COMM_REDUCE)
        axes = real_axes(data.ndim, axis)
        chosen = functions_any if name == "sum" and data.dtype == "bool" else reducer
        shape = _kept_shape(data, axes, keepdims)
        return reduce_along(data, chosen, shape, axes, [] if keepdims else axes)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of the elements along axes, of all if none is given."
    return apply


functions_any = functions.comm_reducer(
    lambda a, b: prim.binary(prim.Or, a, b), lambda t: const(False, t), name="any"
)
_all = functions.comm_reducer(
    lambda a, b: prim.binary(prim.And, a, b), lambda t: const(True, t), name="all"
)
sum = _reduction("sum", functions.sum)
prod = _reduction("prod", functions.prod)
max = _reduction("max", functions.max)
min = _reduction("min", functions.min)
all = _reduction("all", _all)
any = _reduction("any", functions_any)


def collapse_sum(data: Tensor, target_shape: Sequence[Term]) -> Tensor:
    """The sum over what a tensor of ``target_shape`` was repeated to ``data``'s shape.

    Raises:
        ValueError: the target has more dimensions.
    """
    if data.ndim < len(target_shape):
        raise ValueError(
            f"collapse_sum: expected a shape of at most {data.ndim} dimensions, got "
            f"{list(target_shape)}"
        )
    axes, squeezed = [], []
    wanted = list(target_shape)
    for axis in reversed(range(data.ndim)):
        if wanted and same_size(data.shape[axis], wanted[-1]):
            wanted.pop()
            continue
        axes.append(axis)
        if not wanted:
            squeezed.append(axis)
        elif is_one(wanted[-1]):
            wanted.pop()
    if wanted:
        raise ValueError(
            f"collapse_sum: expected a shape that was repeated to {list(data.shape)}, got "
            f"{list(target_shape)}"
        )
    if not axes:
        return elements(data.shape, lambda i: data(*i), "tensor", COMM_REDUCE)
    return reduce_along(data, functions.sum, target_shape, axes[::-1], squeezed)


def _index_reducer(
    name: str,
    is_better: Callable[[Any, Any], Any],
    worst: Callable[[str], PrimExpr],
    is_last: bool,
) -> Callable[..., Any]:
    """What keeps the better of two pairs of index and value."""

    def combine(lhs: Sequence[Any], rhs: Sequence[Any]) -> tuple[PrimExpr, PrimExpr]:
        better = is_better(lhs[1], rhs[1])
        order = lhs[0] > rhs[0] if is_last else lhs[0] < rhs[0]
        keeps = te.any(better, te.all(lhs[1].equal(rhs[1]), order))
        return Select(keeps, lhs[0], rhs[0]), Select(better, lhs[1], rhs[1])

    return functions.comm_reducer(
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
            places = _places(data.ndim, indices, reduced, axes, squeezed)
            index = ravel_index([places[i] for i in axes], sizes)
            return reducer((index, data(*places)), reduced)

        shape = _kept_shape(data, axes, keepdims)
        label = f"{data.op.name}_red"
        found, _ = elements(shape, element, f"{label}_temp", COMM_REDUCE_IDX)
        return elements(shape, lambda i: found(*i), label, COMM_REDUCE_IDX)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = (
        f"Where the {name[3:]} along axes is; the first place, or the last of several."
    )
    return apply


argmax = _index_reduction("argmax", lambda a, b: a > b, functions.min_value)
argmin = _index_reduction("argmin", lambda a, b: a < b, functions.max_value)
