"""Shape and data-movement operators: reshape, transpose, concat, tile and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relax_mlir.dialects.tensors import MAX_RANK
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import sequence_of
from relax_mlir.objects.prim import PrimExpr, Select, const, convert, intrinsics
from relax_mlir.objects.prim.intrinsics import if_then_else, indexdiv, indexmod
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import broadcast_element, broadcast_shape
from relax_mlir.tvm.topi.ranks import AtLeastMatrix
from relax_mlir.tvm.topi.sizes import (
    as_int,
    ceil_div,
    compute_tensor,
    get_const_int,
    is_float,
    is_one,
    may_be_equal,
    ravel_index,
    simplified,
    unravel_index_wrapped,
)
from relax_mlir.tvm.topi.tag import BROADCAST, ELEMWISE, INJECTIVE

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
    """Normalize an axis to a non-negative number.

    Raises:
        ValueError: the axis is out of range.
    """
    number = get_const_int(axis)
    if not -rank <= number < rank:
        raise ValueError(
            f"{operator}: expected an axis of {rank} dimensions, got {number}"
        )
    return number % rank


def as_list(values: Any) -> list[Any]:
    """A value, or a sequence of values, as a list; None gives an empty list."""
    if values is None:
        return []
    if isinstance(values, (int, np.integer, PrimExpr)):
        return [values]
    return list(sequence_of(values, "an axis, or several", "values"))


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert ``num_newaxis`` dimensions of size 1 before ``axis``."""
    dim = checked_axis(axis, a.ndim + 1, "expand_dims")
    if not 0 <= num_newaxis <= MAX_RANK - a.ndim:
        raise ArgumentValueError(
            f"expand_dims: `num_newaxis`: expected 0 to {MAX_RANK - a.ndim}, "
            f"got {num_newaxis}"
        )
    ones = [const(1, size.dtype) for size in a.shape[:1] or (const(1),)] * num_newaxis
    sizes = (*a.shape[:dim], *ones, *a.shape[dim:])

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(*i[:dim], *i[dim + num_newaxis :])

    return compute_tensor(sizes, element, "T_expand_dims", BROADCAST)


def expand_like(a: Tensor, shape_like: Tensor, axis: Sequence[int]) -> Tensor:
    """Broadcast ``a`` along new axes to the shape of another tensor.

    Raises:
        ValueError: the ranks do not match.
    """
    if len(axis) + a.ndim != shape_like.ndim:
        if a.ndim == 1 and len(axis) == shape_like.ndim:
            return te.compute(shape_like.shape, lambda *i: a(0))
        raise ValueError(
            f"expand_like: expected {shape_like.ndim} dimensions, as `{shape_like.name}` "
            f"has, got {a.ndim} and {len(axis)} new ones"
        )
    new_axes = [checked_axis(one, shape_like.ndim, "expand_like") for one in axis]
    if len(set(new_axes)) != len(new_axes):
        raise ValueError(f"expand_like: expected each axis once, got {axis}")

    def element(*indices: Any) -> PrimExpr:
        kept = [index for i, index in enumerate(indices) if i not in new_axes]
        pairs = zip(a.shape, kept, strict=True)
        return a(*(if_then_else(size != 1, index, 0) for size, index in pairs))

    return te.compute(shape_like.shape, element)


def transpose(a: Tensor, axes: Sequence[Any] | None = None) -> Tensor:
    """Permute the dimensions of a tensor; reversed by default.

    Raises:
        ValueError: ``axes`` is not a permutation.
    """
    permutation = as_list(axes) or list(range(a.ndim))[::-1]
    order = [checked_axis(axis, a.ndim, "transpose") for axis in permutation]
    if sorted(order) != list(range(a.ndim)):
        raise ValueError(f"transpose: expected each of {a.ndim} axes once, got {axes}")

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        by_axis = dict(zip(order, indices, strict=True))
        return a(*(by_axis[axis] for axis in range(a.ndim)))

    return compute_tensor(
        [a.shape[i] for i in order], element, "T_transpose", INJECTIVE
    )


def _replace_index(
    tensor: Tensor, axis: int, indices: Sequence[PrimExprLike], index: Any
) -> PrimExpr:
    """Element at ``indices``, with the index along one axis replaced by ``index``."""
    return tensor(*indices[:axis], index, *indices[axis + 1 :])


def _replace_size(tensor: Tensor, axis: int, size: Any) -> list[Any]:
    """Shape of a tensor with the size of one axis replaced."""
    return [*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]]


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverse a tensor along an axis."""
    dim = checked_axis(axis, a.ndim, "flip")
    size = a.shape[dim]
    return compute_tensor(
        a.shape,
        lambda i: _replace_index(a, dim, i, size - 1 - i[dim]),
        "T_reverse_sequence",
        INJECTIVE,
    )


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor | None, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """Reverse the first ``seq_lengths[b]`` elements of every sequence.

    Raises:
        ValueError: the number of lengths differs from the batch size.
    """
    if seq_lengths is None:
        return flip(a, seq_axis)
    along = checked_axis(seq_axis, a.ndim, "reverse_sequence")
    batch = checked_axis(batch_axis, a.ndim, "reverse_sequence")
    lengths, size = seq_lengths, a.shape[along]
    if lengths.ndim != 1 or not may_be_equal(lengths.shape[0], a.shape[batch]):
        raise ValueError(
            f"reverse_sequence: expected {a.shape[batch]} lengths, got {lengths.shape}"
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        length, index = lengths(i[batch]), i[along]
        mirrored = if_then_else(length > size, size - 1 - index, length - 1 - index)
        is_fixed = te.any(length <= 1, length <= index)
        return _replace_index(a, along, i, if_then_else(is_fixed, index, mirrored))

    return compute_tensor(a.shape, element, "T_reverse_sequence", INJECTIVE)


def reshape(a: Tensor, newshape: Sequence[PrimExprLike]) -> Tensor:
    """Reshape a tensor; elements keep their row-major order."""
    sizes = [convert(s) for s in as_list(newshape)]
    if any(as_int(s) == 0 for s in sizes):
        return compute_tensor(
            sizes, lambda i: const(0, a.dtype), "T_reshape", INJECTIVE
        )
    return compute_tensor(
        sizes,
        lambda i: a(*unravel_index_wrapped(ravel_index(i, sizes), a.shape)),
        "T_reshape",
        INJECTIVE,
    )


def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """Remove dimensions of size 1, by default all of them.

    Raises:
        ValueError: a dimension in ``axis`` has another size.
    """
    axes = [checked_axis(one, a.ndim, "squeeze") for one in as_list(axis)]
    axes = axes or [i for i, size in enumerate(a.shape) if is_one(size)]
    for one in axes:
        if as_int(a.shape[one]) not in (1, None):
            raise ValueError(f"squeeze: axis {one} has size {a.shape[one]}, expected 1")
    kept = [i for i in range(a.ndim) if i not in axes]

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        by_axis = dict(zip(kept, indices, strict=True))
        return a(*(by_axis.get(i, const(0, a.shape[i].dtype)) for i in range(a.ndim)))

    return compute_tensor([a.shape[i] for i in kept], element, "T_squeeze", INJECTIVE)


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenate tensors along an axis."""
    if not len(a_tuple):
        raise ValueError("concatenate: expected at least one tensor")
    first = a_tuple[0]
    dim = checked_axis(axis, first.ndim, "concatenate")
    sizes = [t.shape[dim] for t in a_tuple]
    total = sizes[0]
    for size in sizes[1:]:
        total = total + size

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value, index = first(*i), i[dim]
        for size, tensor in zip(sizes[:-1], a_tuple[1:], strict=True):
            index = index - size
            value = if_then_else(
                index >= 0, _replace_index(tensor, dim, i, index), value
            )
        return value

    shape = _replace_size(first, dim, simplified(total))
    return compute_tensor(shape, element, "T_concat", INJECTIVE)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Stack tensors of one shape along a new axis."""
    if not len(tensors):
        raise ValueError("stack: expected at least one tensor")
    first = tensors[0]
    dim = checked_axis(axis, first.ndim + 1, "stack")
    count = const(len(tensors), first.shape[0].dtype if first.shape else "int32")

    def element(i: tuple[Any, ...]) -> PrimExpr:
        source = (*i[:dim], *i[dim + 1 :])
        value = first(*source)
        for number, tensor in enumerate(tensors[1:], start=1):
            value = if_then_else(i[dim].equal(number), tensor(*source), value)
        return value

    sizes = (*first.shape[:dim], count, *first.shape[dim:])
    return compute_tensor(sizes, element, "T_stack", INJECTIVE)


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis.

    Args:
        ary: the tensor.
        indices_or_sections: the number of sections (the last may be smaller), or the
            indices at which sections begin, except the first.
        axis: axis to split.

    Raises:
        ValueError: there are too few elements, or the indices do not ascend.
    """
    dim = checked_axis(axis, ary.ndim, "split")
    size = ary.shape[dim]
    name = "T_split"
    if as_int(indices_or_sections) is not None and not _is_sequence(
        indices_or_sections
    ):
        name, count = "T_split_sections", get_const_int(indices_or_sections)
        known_size = as_int(size)
        section_size = (
            None if count <= 0 or known_size is None else -(-known_size // count)
        )
        if count <= 0 or (
            section_size is not None and section_size * (count - 1) > (known_size or 0)
        ):
            raise ValueError(
                f"split: cannot split {size} elements into {count} sections"
            )
        section = (
            ceil_div(size, count)
            if section_size is None
            else const(section_size, size.dtype)
        )
        begins: list[Any] = [
            const(0, size.dtype),
            *(section * i for i in range(1, count)),
        ]
    else:
        known_size = as_int(size)
        splits = [
            index if known_size is None or (as_int(index) or 0) <= known_size else size
            for index in as_list(indices_or_sections)
        ]
        begins = [const(0, size.dtype), *splits]
    ends = [*begins[1:], size]
    for begin, end in zip(begins[:-1], ends[:-1], strict=True):
        if (as_int(end - begin) or 0) < 0:
            raise ValueError(f"split: expected ascending indices, got {begins[1:]}")
    return [
        _section(ary, dim, begin, end, name)
        for begin, end in zip(begins, ends, strict=True)
    ]


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence)


def _section(ary: Tensor, axis: int, begin: Any, end: Any, name: str) -> Tensor:
    return compute_tensor(
        _replace_size(ary, axis, simplified(convert(end) - begin)),
        lambda i: _replace_index(ary, axis, i, i[axis] + begin),
        name,
        INJECTIVE,
    )


def arange(
    start: PrimExprLike,
    stop: Any = None,
    step: PrimExprLike = 1,
    dtype: str = "float32",
) -> Tensor:
    """Evenly spaced values in ``[start, stop)``."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = map(convert, (start, stop, step))
    are_integers = all(not is_float(t.dtype) for t in (start, stop, step))
    if are_integers:
        count = simplified(intrinsics.ceildiv(stop - start, step))
    else:
        length = prim.cast("float32", stop - start)
        count = simplified(prim.cast("int32", intrinsics.ceil(length / step)))
    return compute_tensor(
        [count],
        lambda i: prim.cast(dtype, start + step * i[0]),
        "T_arange",
        INJECTIVE,
    )


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Coordinate grids of vectors, in ``xy`` or ``ij`` indexing."""
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) >= 2:
        order[:2] = [1, 0]
    sizes = [a_tuple[i].shape[0] if a_tuple[i].ndim else const(1) for i in order]
    return [
        compute_tensor(
            sizes,
            lambda i, t=tensor, dim=dim: t(*([i[dim]] if t.ndim else [])),
            "T_meshgrid",
            INJECTIVE,
        )
        for tensor, dim in zip(a_tuple, order, strict=True)
    ]


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Repeat every element along an axis."""
    dim = checked_axis(axis, a.ndim, "repeat")
    return compute_tensor(
        _replace_size(a, dim, repeats * a.shape[dim]),
        lambda i: _replace_index(a, dim, i, indexdiv(i[dim], repeats)),
        "T_repeat",
        BROADCAST,
    )


def tile(a: Tensor, reps: Sequence[PrimExprLike]) -> Tensor:
    """Tile a tensor ``reps`` times along each axis."""
    repetitions = as_list(reps)
    rank = max(a.ndim, len(repetitions))
    sizes = [*(1 for _ in range(rank - a.ndim)), *a.shape]
    counts = [*(1 for _ in range(rank - len(repetitions))), *repetitions]
    return dyn_tile(
        a,
        [convert(s) * c for s, c in zip(sizes, counts, strict=True)],
        len(repetitions),
    )


def dyn_tile(a: Tensor, new_shape: Sequence[PrimExprLike], rdim: int) -> Tensor:
    """Tile a tensor to ``new_shape``, which may be symbolic."""
    leading = max(rdim - a.ndim, 0)
    if len(new_shape) != leading + a.ndim:
        raise ValueError(
            f"dyn_tile: expected {leading + a.ndim} sizes, got {len(new_shape)}"
        )
    if any(as_int(s) == 0 for s in new_shape):
        return compute_tensor(
            new_shape, lambda i: const(0, a.dtype), "T_tile", BROADCAST
        )

    def element(i: tuple[Any, ...]) -> PrimExpr:
        pairs = zip(i[leading:], a.shape, strict=True)
        return a(*(indexmod(index, size) for index, size in pairs))

    return compute_tensor(new_shape, element, "T_tile", BROADCAST)


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Select elements of ``x`` where the condition holds, else of ``y``; shapes broadcast.

    Raises:
        ValueError: ``x`` and ``y`` have different types.
    """
    if x.dtype != y.dtype:
        raise ValueError(
            f"where: expected tensors of one type, got {x.dtype}, {y.dtype}"
        )
    sizes = broadcast_shape(condition.shape, broadcast_shape(x.shape, y.shape))
    index_type = sizes[0].dtype if sizes else "int32"

    def element(i: tuple[Any, ...]) -> PrimExpr:
        cond, then, otherwise = (
            broadcast_element(t, i, sizes) for t in (condition, x, y)
        )
        if cond.dtype != "bool":
            return Select(prim.NE(cond, 0), then, otherwise)
        number = prim.Cast(index_type, cond)
        return Select(prim.LT(const(0, index_type), number), then, otherwise)

    return compute_tensor(sizes, element, "T_where", BROADCAST)


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """Shape of a tensor as a vector."""

    def element(i: tuple[Any, ...]) -> PrimExpr:
        value: Any = const(0, "int32")
        for axis, size in enumerate(array.shape):
            value = if_then_else(i[0].equal(axis), size, value)
        return prim.cast(dtype, value)

    return compute_tensor([array.ndim], element, "T_shape", INJECTIVE)


def tensor_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """Number of elements of a tensor, as a tensor of rank 0."""

    def element(i: tuple[Any, ...]) -> PrimExpr:
        total = const(1)
        for size in array.shape:
            total = total * size
        return prim.cast(dtype, total)

    return compute_tensor((), element, "ndarray_size", INJECTIVE)


ndarray_size = tensor_size


def sliding_window(
    data: Tensor,
    axis: int,
    window_shape: Sequence[PrimExprLike],
    strides: Sequence[PrimExprLike],
) -> Tensor:
    """Sliding windows over the dimensions from ``axis`` on, as trailing dimensions."""
    dim = checked_axis(axis, data.ndim, "sliding_window")
    windows, steps = as_list(window_shape), as_list(strides)
    count = data.ndim - dim
    if len(windows) != count or len(steps) != count:
        raise ArgumentValueError(
            f"sliding_window: expected {count} sizes of a window and {count} strides, got "
            f"{len(windows)} and {len(steps)}"
        )
    triples = list(zip(data.shape[dim:], windows, steps, strict=True))
    counts = [simplified(indexdiv(size - w + s, s)) for size, w, s in triples]
    sizes = [*data.shape[:dim], *counts, *windows]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        outer, inner = i[dim : dim + count], i[dim + count :]
        window_indices = [
            o * s + w for o, s, w in zip(outer, steps, inner, strict=True)
        ]
        return data(*i[:dim], *window_indices)

    return compute_tensor(sizes, element, "T_sliding_window", INJECTIVE)


def trilu(data: AtLeastMatrix, k: Any, upper: bool) -> Tensor:
    """Upper or lower triangle of matrices; zeros elsewhere."""
    diagonal = prim.cast("int32", k)
    compare = prim.LE if upper else prim.GE

    def element(*indices: Any) -> PrimExpr:
        row, column = prim.matched(indices[-2], indices[-1])
        is_kept = compare(row, column - diagonal)
        return Select(is_kept, data(*indices), const(0, data.dtype))

    return te.compute(data.shape, element, name="trilu", tag=ELEMWISE)
