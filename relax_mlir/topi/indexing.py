"""Operators that read elements at places that other tensors or numbers say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import functions, prim
from relax_mlir.objects.functions import if_then_else, indexdiv, indexmod, truncmod
from relax_mlir.objects.prim import PrimExpr, Select, Var, const, convert
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.topi.broadcast import broadcast_to, common_shape
from relax_mlir.topi.ranks import AtLeastMatrix, Batch, Vector
from relax_mlir.topi.sizes import (
    as_int,
    const_vector,
    elements,
    get_const_int,
    places_of,
    plain,
)
from relax_mlir.topi.tag import INJECTIVE
from relax_mlir.topi.transform import checked_axis, listed

__all__ = [
    "adv_index",
    "clamped_index",
    "dynamic_strided_slice",
    "gather",
    "gather_nd",
    "index_tensor",
    "is_in_range",
    "matrix_set_diag",
    "nearest_index",
    "one_hot",
    "sequence_mask",
    "sparse_to_dense",
    "strided_slice",
    "take",
    "unravel",
    "wrapped_index",
]

_FAR = sys.maxsize  # beyond the end of any axis


def take(
    a: Tensor,
    indices: Any,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "fast",
) -> Tensor:
    """The elements of ``a`` at ``indices`` of an axis.

    Args:
        a: the tensor.
        indices: places along the axis: a tensor, or one place.
        axis: to index; by default ``a`` is taken for flat.
        batch_dims: how many dimensions the two have in common.
        mode: of places outside: ``clip`` takes the nearest, ``wrap`` counts on from the
            other end, ``fast`` is :func:`nearest_index`.
    """
    if not isinstance(indices, Tensor):
        return _taken_once(a, convert(indices), axis, mode)
    if axis is None:
        size: Any = const(1)
        for extent in a.shape:
            size = size * extent
        bound = _bounding(mode, size)
        return elements(
            indices.shape,
            lambda i: a(*places_of(bound(indices(*i)), a.shape)),
            "T_take",
            INJECTIVE,
        )
    place = checked_axis(axis, a.ndim, "take")
    shared = batch_dims if batch_dims >= 0 else batch_dims + indices.ndim
    bound = _bounding(mode, a.shape[place])
    end = place + indices.ndim - shared

    def element(i: tuple[Any, ...]) -> PrimExpr:
        index = indices(*i[:shared], *i[place:end])
        return a(*i[:place], bound(index), *i[end:])

    sizes = (*a.shape[:place], *indices.shape[shared:], *a.shape[place + 1 :])
    return elements(sizes, element, "T_take", INJECTIVE)


def _taken_once(a: Tensor, index: PrimExpr, axis: int | None, mode: str) -> Tensor:
    """The elements at one place of an axis, which the result has not."""
    place = checked_axis(axis or 0, a.ndim, "take")
    index = _bounding(mode, a.shape[place])(index)
    return elements(
        (*a.shape[:place], *a.shape[place + 1 :]),
        lambda i: a(*i[:place], index, *i[place:]),
        "T_take",
        INJECTIVE,
    )


def _bounding(mode: str, size: Any) -> Callable[[PrimExpr], PrimExpr]:
    """What makes an index one that is inside."""
    if mode == "fast":
        return lambda index: nearest_index(index, size)
    if mode == "clip":
        return lambda index: functions.min(functions.max(0, index), size - 1)
    if mode != "wrap":
        raise ValueError(f"take: expected mode `fast`, `clip` or `wrap`, got `{mode}`")
    return lambda index: truncmod(truncmod(index, size) + size, size)


def wrapped_index(index: PrimExpr, size: Any) -> PrimExpr:
    """A run-time index, where a negative one counts from the end of the axis.

    It may still be out of range. 64 bits hold it whatever the type of the indices.
    """
    wide = prim.cast("int64", index)
    if index.dtype.startswith("uint"):
        return wide
    return Select(wide < 0, wide + prim.cast("int64", size), wide)


def nearest_index(index: PrimExpr, size: Any) -> PrimExpr:
    """:func:`wrapped_index`, then :func:`clamped_index`: none reads outside of memory."""
    known, extent = as_int(index), as_int(size)
    if known is not None and extent is not None and 0 <= known < extent:
        return index
    return clamped_index(wrapped_index(index, size), size)


def clamped_index(index: PrimExpr, size: Any) -> PrimExpr:
    """A run-time index, or the end of the axis that it is beyond."""
    last = prim.cast("int64", size) - 1
    return functions.max(functions.min(prim.cast("int64", index), last), 0)


def is_in_range(index: PrimExpr, size: Any) -> PrimExpr:
    """Whether a wrapped index is one of the axis."""
    return te.all(index >= 0, index < prim.cast("int64", size))


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """The element at every place of ``indices``, but at its value along ``axis``.

    An index out of range is :func:`nearest_index`.

    Raises:
        ValueError: ranks differ, or the indices are no integers.
    """
    if data.ndim != indices.ndim or not indices.dtype.startswith(("int", "uint")):
        raise ValueError(
            f"gather: expected integers of {data.ndim} dimensions, got {indices.dtype} "
            f"of {indices.ndim}"
        )
    place = checked_axis(axis, data.ndim, "gather")
    return elements(
        indices.shape,
        lambda i: data(
            *i[:place], nearest_index(indices(*i), data.shape[place]), *i[place + 1 :]
        ),
        "T_gather",
        INJECTIVE,
    )


def gather_nd(a: Tensor, indices: Batch, batch_dims: int = 0) -> Tensor:
    """The elements of ``a`` at the places in the columns of ``indices``.

    An index out of range is :func:`nearest_index`.

    Raises:
        ValueError: columns are longer than ``a`` has dimensions.
    """
    count = get_const_int(indices.shape[0])
    if count > a.ndim:
        raise ValueError(f"gather_nd: expected at most {a.ndim} indices, got {count}")
    points = indices.ndim - 1

    def element(i: tuple[Any, ...]) -> PrimExpr:
        at = [indices(number, *i[:points]) for number in range(count)]
        sizes = a.shape[batch_dims : batch_dims + count]
        own = list(map(nearest_index, at, sizes))
        rest = [] if batch_dims + count == a.ndim else i[points:]
        return a(*i[:batch_dims], *own, *rest)

    sizes = (*indices.shape[1:], *a.shape[count + batch_dims :])
    return elements(sizes, element, "T_gather_nd", INJECTIVE)


def strided_slice(
    a: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Sequence[Any] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """Every ``strides``-th element from ``begin`` up to ``end`` along each axis.

    Args:
        a: the tensor.
        begin: where to start along each axis; negative ones count from the end.
        end: where to stop; with ``slice_mode`` ``size`` how many to take.
        strides: how far to go, 1 by default.
        axes: to slice, by default the first ones.
        slice_mode: ``end`` or ``size``.
        assume_inbound: whether symbolic ends are known to lie inside.
    """
    if any(isinstance(part, Tensor) for part in (begin, end, strides)):
        return _slice_by_tensors(a, begin, end, strides)
    begins, ends, steps = map(_terms, (begin, end, strides))
    parts = [*begins, *ends, *steps]
    if axes is not None and len(axes):
        places = [checked_axis(axis, a.ndim, "strided_slice") for axis in axes]
        sizes = [a.shape[i] for i in places]
        steps = steps or [1] * len(places)
    else:
        places, sizes = list(range(a.ndim)), list(a.shape)
    is_static = all(p is None or as_int(p) is not None for p in (*parts, *sizes))
    if is_static:
        return _static_slice(a, begins, ends, steps, places, slice_mode)
    if axes is not None and len(axes):
        return _symbolic_slice(a, begins, ends, steps, places, assume_inbound)
    return _clipped_slice(a, begins, ends, steps or [1] * len(begins))


def _terms(values: Any) -> list[Any]:
    """One number, or several; None stays where a slice is open."""
    return [None if v is None else convert(v) for v in listed(values)]


def _static_slice(
    a: Tensor,
    begins: Sequence[Any],
    ends: Sequence[Any],
    steps: Sequence[Any],
    places: Sequence[int],
    mode: str,
) -> Tensor:
    shape = list(a.shape)
    runs: dict[int, tuple[int, int]] = {}
    for number, place in enumerate(places):
        size = get_const_int(a.shape[place])
        step = _number(steps, number, 1) if mode == "end" else 1
        first = _number(begins, number, 0 if step > 0 else _FAR)
        last = _number(ends, number, 0 if step < 0 else _FAR)
        if mode == "size" and number < len(ends):
            last = first + last if last >= 0 else _FAR
        first, last = (_inside(index, size, step) for index in (first, last))
        count = max(0, -(-(last - first) // step))
        shape[place] = const(count, a.shape[place].dtype)
        runs[place] = (first, step)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                index * runs[axis][1] + runs[axis][0] if axis in runs else index
                for axis, index in enumerate(i)
            )
        )

    return elements(shape, element, "T_strided_slice", INJECTIVE)


def _number(values: Sequence[Any], number: int, default: int) -> int:
    is_given = number < len(values) and values[number] is not None
    return get_const_int(values[number]) if is_given else default


def _inside(index: int, size: int, step: int) -> int:
    low, high = (-1, size - 1) if step < 0 else (0, size)
    return min(max(index + size if index < 0 else index, low), high)


def _canonical(index: Any, size: Any, step: Term) -> PrimExpr:
    """A symbolic index from the front, at most one step outside."""
    step = convert(step)
    index, size = prim.matched(convert(index), convert(size))
    if as_int(plain(size - index)) in (0, 1, 2):
        # Counted from the end, too, it is the first element wherever it is negative.
        inside = functions.max(index, const(0, index.dtype))
    else:
        inside = if_then_else(index < 0, index + size, index)
    low = if_then_else(step < 0, const(-1, index.dtype), const(0, index.dtype))
    high = if_then_else(step < 0, size - 1, size)
    return functions.min(functions.max(inside, low), high)


def _symbolic_slice(
    a: Tensor,
    begins: Sequence[Any],
    ends: Sequence[Any],
    steps: Sequence[Any],
    places: Sequence[int],
    assume_inbound: bool,
) -> Tensor:
    shape = list(a.shape)
    runs: dict[int, tuple[Any, Any]] = {}
    if not len(places) == len(begins) == len(ends) == len(steps):
        raise ArgumentValueError(
            f"strided_slice: expected {len(places)} begins, ends and strides, as there are "
            f"axes, got {len(begins)}, {len(ends)} and {len(steps)}"
        )
    for begin, end, step, place in zip(begins, ends, steps, places, strict=True):
        size = a.shape[place]
        first, last = convert(begin), convert(end)
        if not assume_inbound or all(as_int(v) is not None for v in (begin, end, size)):
            first, last = (plain(_canonical(v, size, step)) for v in (first, last))
        if (as_int(step) or 1) < 0:
            count = functions.ceildiv(first - last, -convert(step))
        else:
            count = functions.ceildiv(last - first, step)
        shape[place] = plain(count)
        runs[place] = (first, step)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                index * runs[axis][1] + runs[axis][0] if axis in runs else index
                for axis, index in enumerate(i)
            )
        )

    return elements(shape, element, "T_dynamic_strided_slice_with_axes", INJECTIVE)


def _clipped_slice(
    a: Tensor, begins: Sequence[Any], ends: Sequence[Any], steps: Sequence[Any]
) -> Tensor:
    """A slice of the first axes, of which begins are at most the last element."""
    count = len(begins)
    if not count == len(ends) == len(steps) or count > a.ndim:
        raise ArgumentValueError(
            f"strided_slice: expected as many begins, ends and strides, up to {a.ndim}, "
            f"got {count}, {len(ends)} and {len(steps)}"
        )
    sizes = [
        _fresh_size(e)
        if _is_data(b, e, s)
        else plain(functions.ceildiv(convert(e) - b, s))
        for b, e, s in zip(begins, ends, steps, strict=True)
    ]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        sliced = [
            functions.min(convert(begin), size - 1) + index * step
            for index, begin, step, size in zip(
                i[:count], begins, steps, a.shape[:count], strict=True
            )
        ]
        return a(*sliced, *i[count:])

    shape = (*sizes, *a.shape[count:])
    return elements(shape, element, "T_dynamic_strided_slice", INJECTIVE)


def _is_data(*terms: Any) -> bool:
    return any(isinstance(t, te.ProducerLoad) for t in terms)


def _fresh_size(like: Any) -> Var:
    return Var("dim", "int32")


def _slice_by_tensors(a: Tensor, begin: Any, end: Any, strides: Any) -> Tensor:
    first = _as_tensor(begin)
    count = get_const_int(first.shape[0])
    last = _as_tensor(end)
    steps = _as_tensor([1] * count if strides is None else strides)
    begins, ends, strided = (
        [tensor(i) for i in range(count)] for tensor in (first, last, steps)
    )
    return _clipped_slice(a, begins, ends, strided)


def _as_tensor(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else const_vector(values)


def dynamic_strided_slice(
    a: Tensor, begin: Any, end: Any, strides: Any, output_shape: Sequence[Term]
) -> Tensor:
    """The slice that tensors of one dimension say, of a given shape."""
    first, steps = _as_tensor(begin), _as_tensor(strides)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                _canonical(first(axis), size, steps(axis)) + index * steps(axis)
                for axis, (index, size) in enumerate(zip(i, a.shape, strict=True))
            )
        )

    return elements(output_shape, element, "T_strided_slice_dynamic", INJECTIVE)


def one_hot(
    indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str
) -> Tensor:
    """``on_value`` where the place along a new axis is the index, else ``off_value``."""
    place = indices.ndim if axis == -1 else axis
    on, off = prim.cast(dtype, on_value), prim.cast(dtype, off_value)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        index = indices(*i[:place], *i[place + 1 :])
        return Select(index.equal(i[place]), on, off)

    depth_like = const(
        get_const_int(depth), indices.shape[0].dtype if indices.shape else "int32"
    )
    sizes = (*indices.shape[:place], depth_like, *indices.shape[place:])
    return elements(sizes, element, "T_one_hot", INJECTIVE)


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """``data`` with ``mask_value`` behind the valid elements of every sequence.

    Raises:
        ValueError: there are fewer than two dimensions, or the axis is neither 0 nor 1.
    """
    if data.ndim < 2 or axis not in (0, 1):
        raise ValueError(
            f"sequence_mask: expected axis 0 or 1 of at least 2 dimensions, got axis "
            f"{axis} of {data.ndim}"
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        time = prim.cast(valid_length.dtype, i[axis])
        is_behind = time >= valid_length(i[1 - axis])
        return if_then_else(is_behind, const(mask_value, data.dtype), data(*i))

    return elements(data.shape, element, "T_sequence_mask", INJECTIVE)


def unravel(indices: Tensor, shape: Vector) -> Tensor:
    """Flat places in a tensor of a shape as columns of indices."""
    rank = get_const_int(shape.shape[0])
    sizes = [shape.shape[0], *indices.shape[:1]]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        rest = indices(*i[1:])
        value: PrimExpr = const(0)
        for axis in reversed(range(rank)):
            value = if_then_else(i[0].equal(axis), indexmod(rest, shape(axis)), value)
            rest = indexdiv(rest, shape(axis))
        return value

    return elements(sizes, element, "T_unravel", INJECTIVE)


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """The elements at the places that index tensors say together, as in numpy.

    An index out of range is :func:`nearest_index`.

    Raises:
        ValueError: there are no index tensors, or more than axes.
    """
    if not 0 < len(indices) <= data.ndim:
        raise ArgumentValueError(
            f"adv_index: `indices`: expected 1 to {data.ndim} tensors, got {len(indices)}"
        )
    sizes: list[PrimExpr] = list(indices[0].shape)
    for index in indices[1:]:
        sizes = common_shape(sizes, index.shape)
    wide = list(indices)
    if len(indices) > 1:
        wide = [broadcast_to(index, sizes) for index in indices]
    rank = len(sizes)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        at = (index(*i[:rank]) for index in wide)
        return data(*map(nearest_index, at, data.shape), *i[rank:])

    shape = (*sizes, *data.shape[len(wide) :])
    return elements(shape, element, "advanced_index", INJECTIVE)


index_tensor = adv_index


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Sequence[Term],
    sparse_values: Tensor,
    default_value: Any = 0,
) -> Tensor:
    """A tensor with values at given places, and a default elsewhere."""
    rank = sparse_indices.ndim
    count = get_const_int(sparse_indices.shape[0]) if rank else 1

    def element(i: tuple[Any, ...]) -> PrimExpr:
        result = prim.cast(sparse_values.dtype, default_value)
        for j in range(count):
            value = sparse_values(j) if sparse_values.ndim else sparse_values()
            result = if_then_else(_is_at(i, j), value, result)
        return result

    def _is_at(i: tuple[Any, ...], j: int) -> PrimExpr:
        if rank == 0:
            return i[0].equal(sparse_indices())
        if rank == 1:
            return i[0].equal(sparse_indices(j))
        width = get_const_int(sparse_indices.shape[1])
        return te.all(*(i[k].equal(sparse_indices(j, k)) for k in range(width)))

    return elements(output_shape, element, "T_sparse_to_dense", INJECTIVE)


def matrix_set_diag(
    data: AtLeastMatrix, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Matrices with other elements on diagonals.

    Args:
        data: the matrices.
        diagonal: the elements, a row per diagonal if there are several.
        k: which diagonal, or the first and the last of several.
        align: where the rows of diagonals above and below the main one are padded.
    """
    ks = listed(k)
    low, high = get_const_int(ks[0]), get_const_int(ks[-1] if len(ks) > 1 else ks[0])
    is_right = align.startswith("RIGHT"), align.endswith("RIGHT")
    rows, columns = data.shape[-2:]

    def value(i: tuple[Any, ...]) -> PrimExpr:
        row, column = i[-2:]
        if low == high:
            return diagonal(*i[:-2], column if low < 0 else row)
        number = column - row
        longest = diagonal.shape[-1]
        above = longest - _smaller(columns - number, rows) if is_right[0] else const(0)
        below = longest - _smaller(columns, rows + number) if is_right[1] else const(0)
        offset = if_then_else(number >= 0, above, below)
        at = if_then_else(number >= 0, row, column) + offset
        return diagonal(*i[:-2], high - number, at)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        number = i[-1] - i[-2]
        inner = if_then_else(number <= high, value(i), data(*i))
        return if_then_else(number >= low, inner, data(*i))

    return elements(data.shape, element, "T_matrix_set_diag", INJECTIVE)


def _smaller(a: Any, b: Any) -> PrimExpr:
    return if_then_else(a < b, a, b)
