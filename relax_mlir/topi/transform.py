"""Operators that move elements to other places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir import te
from relax_mlir.dialects.tensors import MAX_RANK
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import functions, prim
from relax_mlir.objects.argument_checks import sequence_of
from relax_mlir.objects.functions import if_then_else, indexdiv, indexmod
from relax_mlir.objects.prim import PrimExpr, Select, const, convert
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.topi.broadcast import common_shape, element_of
from relax_mlir.topi.ranks import AtLeastMatrix
from relax_mlir.topi.sizes import (
    as_int,
    ceil_div,
    elements,
    get_const_int,
    is_float,
    is_one,
    may_be_same,
    places_of,
    plain,
    ravel_index,
)
from relax_mlir.topi.tag import BROADCAST, ELEMWISE, INJECTIVE

__all__ = [
    "arange",
    "concatenate",
    "dyn_tile",
    "expand_dims",
    "expand_like",
    "flip",
    "meshgrid",
    "ndarray_size",
    "repeat",
    "reshape",
    "reverse_sequence",
    "shape",
    "sliding_window",
    "split",
    "squeeze",
    "stack",
    "tensor_size",
    "tile",
    "transpose",
    "trilu",
    "where",
]


def checked_axis(axis: Any, rank: int, operator: str) -> int:
    """An axis counted from the front.

    Raises:
        ValueError: there is no such axis.
    """
    number = get_const_int(axis)
    if not -rank <= number < rank:
        raise ValueError(
            f"{operator}: expected an axis of {rank} dimensions, got {number}"
        )
    return number % rank


def listed(values: Any) -> list[Any]:
    """One value, or several, as a list."""
    if values is None:
        return []
    if isinstance(values, (int, np.integer, PrimExpr)):
        return [values]
    return list(sequence_of(values, "an axis, or several", "values"))


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """``a`` with ``num_newaxis`` dimensions of size 1 before ``axis``."""
    place = checked_axis(axis, a.ndim + 1, "expand_dims")
    if not 0 <= num_newaxis <= MAX_RANK - a.ndim:
        raise ArgumentValueError(
            f"expand_dims: `num_newaxis`: expected 0 to {MAX_RANK - a.ndim}, "
            f"got {num_newaxis}"
        )
    ones = [const(1, size.dtype) for size in a.shape[:1] or (const(1),)] * num_newaxis
    sizes = (*a.shape[:place], *ones, *a.shape[place:])

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(*i[:place], *i[place + num_newaxis :])

    return elements(sizes, element, "T_expand_dims", BROADCAST)


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """``a`` repeated along new axes to the shape of another tensor.

    Raises:
        ValueError: the ranks do not fit.
    """
    if len(axis) + a.ndim != shape_like.ndim:
        if a.ndim == 1 and len(axis) == shape_like.ndim:
            return te.compute(shape_like.shape, lambda *i: a(0))
        raise ValueError(
            f"expand_like: {a.ndim} dimensions and {len(axis)} new ones are not the "
            f"{shape_like.ndim} of `{shape_like.name}`"
        )
    new = [checked_axis(one, shape_like.ndim, "expand_like") for one in axis]
    if len(set(new)) != len(new):
        raise ValueError(f"expand_like: expected each axis once, got {axis}")

    def element(*indices: Any) -> PrimExpr:
        kept = [index for i, index in enumerate(indices) if i not in new]
        pairs = zip(a.shape, kept, strict=True)
        return a(*(if_then_else(size != 1, index, 0) for size, index in pairs))

    return te.compute(shape_like.shape, element)


def transpose(a: Tensor, axes: Sequence[Any] | None = None) -> Tensor:
    """``a`` with its dimensions in another order; reversed by default.

    Raises:
        ValueError: ``axes`` is no order of them.
    """
    wanted = listed(axes) or list(range(a.ndim))[::-1]
    order = [checked_axis(axis, a.ndim, "transpose") for axis in wanted]
    if sorted(order) != list(range(a.ndim)):
        raise ValueError(f"transpose: expected each of {a.ndim} axes once, got {axes}")

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        places = dict(zip(order, indices, strict=True))
        return a(*(places[axis] for axis in range(a.ndim)))

    return elements([a.shape[i] for i in order], element, "T_transpose", INJECTIVE)


def _along(tensor: Tensor, axis: int, indices: Sequence[Term], index: Any) -> PrimExpr:
    """The element at ``indices``, but at ``index`` of one axis."""
    return tensor(*indices[:axis], index, *indices[axis + 1 :])


def _resized(tensor: Tensor, axis: int, size: Any) -> list[Any]:
    """The shape of a tensor with another size of one axis."""
    return [*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]]


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """``a`` backwards along an axis."""
    place = checked_axis(axis, a.ndim, "flip")
    size = a.shape[place]
    return elements(
        a.shape,
        lambda i: _along(a, place, i, size - 1 - i[place]),
        "T_reverse_sequence",
        INJECTIVE,
    )


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor | None, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """The first elements along an axis backwards, as many as ``seq_lengths`` says.

    Raises:
        ValueError: there is not one length for every element of the batch.
    """
    if seq_lengths is None:
        return flip(a, seq_axis)
    along = checked_axis(seq_axis, a.ndim, "reverse_sequence")
    batch = checked_axis(batch_axis, a.ndim, "reverse_sequence")
    lengths, size = seq_lengths, a.shape[along]
    if lengths.ndim != 1 or not may_be_same(lengths.shape[0], a.shape[batch]):
        raise ValueError(
            f"reverse_sequence: expected {a.shape[batch]} lengths, got {lengths.shape}"
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        length, index = lengths(i[batch]), i[along]
        mirrored = if_then_else(length > size, size - 1 - index, length - 1 - index)
        stays = te.any(length <= 1, length <= index)
        return _along(a, along, i, if_then_else(stays, index, mirrored))

    return elements(a.shape, element, "T_reverse_sequence", INJECTIVE)


def reshape(a: Tensor, newshape: Sequence[Term]) -> Tensor:
    """The elements of ``a`` in row-major order in another shape."""
    sizes = [convert(s) for s in listed(newshape)]
    if any(as_int(s) == 0 for s in sizes):
        return elements(sizes, lambda i: const(0, a.dtype), "T_reshape", INJECTIVE)
    return elements(
        sizes,
        lambda i: a(*places_of(ravel_index(i, sizes), a.shape)),
        "T_reshape",
        INJECTIVE,
    )


def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """``a`` without dimensions of size 1, all of them by default.

    Raises:
        ValueError: one of ``axis`` has another size.
    """
    axes = [checked_axis(one, a.ndim, "squeeze") for one in listed(axis)]
    axes = axes or [i for i, size in enumerate(a.shape) if is_one(size)]
    for one in axes:
        if as_int(a.shape[one]) not in (1, None):
            raise ValueError(f"squeeze: axis {one} has size {a.shape[one]}, expected 1")
    kept = [i for i in range(a.ndim) if i not in axes]

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        places = dict(zip(kept, indices, strict=True))
        return a(*(places.get(i, const(0, a.shape[i].dtype)) for i in range(a.ndim)))

    return elements([a.shape[i] for i in kept], element, "T_squeeze", INJECTIVE)


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors joined along an axis."""
    if not len(a_tuple):
        raise ValueError("concatenate: expected at least one tensor")
    first = a_tuple[0]
    place = checked_axis(axis, first.ndim, "concatenate")
    sizes = [t.shape[place] for t in a_tuple]
    total = sizes[0]
    for size in sizes[1:]:
        total = total + size

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value, index = first(*i), i[place]
        for size, tensor in zip(sizes[:-1], a_tuple[1:], strict=True):
            index = index - size
            value = if_then_else(index >= 0, _along(tensor, place, i, index), value)
        return value

    shape = _resized(first, place, plain(total))
    return elements(shape, element, "T_concat", INJECTIVE)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    if not len(tensors):
        raise ValueError("stack: expected at least one tensor")
    first = tensors[0]
    place = checked_axis(axis, first.ndim + 1, "stack")
    count = const(len(tensors), first.shape[0].dtype if first.shape else "int32")

    def element(i: tuple[Any, ...]) -> PrimExpr:
        own = (*i[:place], *i[place + 1 :])
        value = first(*own)
        for number, tensor in enumerate(tensors[1:], start=1):
            value = if_then_else(i[place].equal(number), tensor(*own), value)
        return value

    sizes = (*first.shape[:place], count, *first.shape[place:])
    return elements(sizes, element, "T_stack", INJECTIVE)


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """``ary`` in pieces along an axis.

    Args:
        ary: the tensor.
        indices_or_sections: how many pieces, of which the last may be smaller, or where
            pieces begin.
        axis: to split.

    Raises:
        ValueError: there are too few elements, or places do not ascend.
    """
    place = checked_axis(axis, ary.ndim, "split")
    size = ary.shape[place]
    name = "T_split"
    if as_int(indices_or_sections) is not None and not _is_sequence(
        indices_or_sections
    ):
        name, count = "T_split_sections", get_const_int(indices_or_sections)
        whole = as_int(size)
        each = None if count <= 0 or whole is None else -(-whole // count)
        if count <= 0 or (each is not None and each * (count - 1) > (whole or 0)):
            raise ValueError(f"split: {size} elements do not make {count} pieces")
        section = ceil_div(size, count) if each is None else const(each, size.dtype)
        begins: list[Any] = [
            const(0, size.dtype),
            *(section * i for i in range(1, count)),
        ]
    else:
        known = as_int(size)
        places = [
            place if known is None or (as_int(place) or 0) <= known else size
            for place in listed(indices_or_sections)
        ]
        begins = [const(0, size.dtype), *places]
    ends = [*begins[1:], size]
    for begin, end in zip(begins[:-1], ends[:-1], strict=True):
        if (as_int(end - begin) or 0) < 0:
            raise ValueError(f"split: expected ascending places, got {begins[1:]}")
    return [
        _piece(ary, place, begin, end, name)
        for begin, end in zip(begins, ends, strict=True)
    ]


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence)


def _piece(ary: Tensor, axis: int, begin: Any, end: Any, name: str) -> Tensor:
    return elements(
        _resized(ary, axis, plain(convert(end) - begin)),
        lambda i: _along(ary, axis, i, i[axis] + begin),
        name,
        INJECTIVE,
    )


def arange(
    start: Term, stop: Any = None, step: Term = 1, dtype: str = "float32"
) -> Tensor:
    """Numbers from ``start`` up to ``stop``, ``step`` apart."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = map(convert, (start, stop, step))
    are_integers = all(not is_float(t.dtype) for t in (start, stop, step))
    if are_integers:
        count = plain(functions.ceildiv(stop - start, step))
    else:
        length = prim.cast("float32", stop - start)
        count = plain(prim.cast("int32", functions.ceil(length / step)))
    return elements(
        [count],
        lambda i: prim.cast(dtype, start + step * i[0]),
        "T_arange",
        INJECTIVE,
    )


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Every vector repeated along the axes of all others; ``xy`` or ``ij`` order."""
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) >= 2:
        order[:2] = [1, 0]
    sizes = [a_tuple[i].shape[0] if a_tuple[i].ndim else const(1) for i in order]
    return [
        elements(
            sizes,
            lambda i, t=tensor, place=place: t(*([i[place]] if t.ndim else [])),
            "T_meshgrid",
            INJECTIVE,
        )
        for tensor, place in zip(a_tuple, order, strict=True)
    ]


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Every element along an axis ``repeats`` times."""
    place = checked_axis(axis, a.ndim, "repeat")
    return elements(
        _resized(a, place, repeats * a.shape[place]),
        lambda i: _along(a, place, i, indexdiv(i[place], repeats)),
        "T_repeat",
        BROADCAST,
    )


def tile(a: Tensor, reps: Sequence[Term]) -> Tensor:
    """``a`` repeated as a whole, ``reps`` times along each axis."""
    times = listed(reps)
    rank = max(a.ndim, len(times))
    sizes = [*(1 for _ in range(rank - a.ndim)), *a.shape]
    counts = [*(1 for _ in range(rank - len(times))), *times]
    return dyn_tile(
        a, [convert(s) * c for s, c in zip(sizes, counts, strict=True)], len(times)
    )


def dyn_tile(a: Tensor, new_shape: Sequence[Term], rdim: int) -> Tensor:
    """``a`` repeated as a whole up to ``new_shape``."""
    skipped = max(rdim - a.ndim, 0)
    if len(new_shape) != skipped + a.ndim:
        raise ValueError(
            f"dyn_tile: expected {skipped + a.ndim} sizes, got {len(new_shape)}"
        )
    if any(as_int(s) == 0 for s in new_shape):
        return elements(new_shape, lambda i: const(0, a.dtype), "T_tile", BROADCAST)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        pairs = zip(i[skipped:], a.shape, strict=True)
        return a(*(indexmod(index, size) for index, size in pairs))

    return elements(new_shape, element, "T_tile", BROADCAST)


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elements of ``x`` where the condition holds, else of ``y``; shapes broadcast.

    Raises:
        ValueError: ``x`` and ``y`` have different types.
    """
    if x.dtype != y.dtype:
        raise ValueError(
            f"where: expected tensors of one type, got {x.dtype}, {y.dtype}"
        )
    sizes = common_shape(condition.shape, common_shape(x.shape, y.shape))
    index_type = sizes[0].dtype if sizes else "int32"

    def element(i: tuple[Any, ...]) -> PrimExpr:
        chosen, then, other = (element_of(t, i, sizes) for t in (condition, x, y))
        if chosen.dtype != "bool":
            return Select(prim.NE(chosen, 0), then, other)
        number = prim.Cast(index_type, chosen)
        return Select(prim.LT(const(0, index_type), number), then, other)

    return elements(sizes, element, "T_where", BROADCAST)


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The sizes of a tensor as a tensor."""

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value: Any = const(0, "int32")
        for axis, size in enumerate(array.shape):
            value = if_then_else(i[0].equal(axis), size, value)
        return prim.cast(dtype, value)

    return elements([array.ndim], element, "T_shape", INJECTIVE)


def tensor_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """How many elements a tensor has, as a tensor without dimensions."""

    def element(i: tuple[Any, ...]) -> PrimExpr:
        total = const(1)
        for size in array.shape:
            total = total * size
        return prim.cast(dtype, total)

    return elements((), element, "ndarray_size", INJECTIVE)


ndarray_size = tensor_size


def sliding_window(
    data: Tensor, axis: int, window_shape: Sequence[Term], strides: Sequence[Term]
) -> Tensor:
    """Windows over the dimensions from ``axis`` on, as dimensions of their own."""
    place = checked_axis(axis, data.ndim, "sliding_window")
    windows, steps = listed(window_shape), listed(strides)
    count = data.ndim - place
    if len(windows) != count or len(steps) != count:
        raise ArgumentValueError(
            f"sliding_window: expected {count} sizes of a window and {count} strides, got "
            f"{len(windows)} and {len(steps)}"
        )
    triples = list(zip(data.shape[place:], windows, steps, strict=True))
    counts = [plain(indexdiv(size - w + s, s)) for size, w, s in triples]
    sizes = [*data.shape[:place], *counts, *windows]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer, inner = i[place : place + count], i[place + count :]
        moved = [o * s + w for o, s, w in zip(outer, steps, inner, strict=True)]
        return data(*i[:place], *moved)

    return elements(sizes, element, "T_sliding_window", INJECTIVE)


def trilu(data: AtLeastMatrix, k: Any, upper: bool) -> Tensor:
    """The elements above a diagonal, or below it, and zeros elsewhere."""
    diagonal = prim.cast("int32", k)
    check = prim.LE if upper else prim.GE

    def element(*indices: Any) -> PrimExpr:
        row, column = prim.matched(indices[-2], indices[-1])
        holds = check(row, column - diagonal)
        return Select(holds, data(*indices), const(0, data.dtype))

    return te.compute(data.shape, element, name="trilu", tag=ELEMWISE)
