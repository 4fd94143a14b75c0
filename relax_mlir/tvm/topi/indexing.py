"""Indexing operators: take, gather, slicing, one-hot and others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Select, Var, const, convert, intrinsics
from relax_mlir.objects.prim.intrinsics import (
    if_then_else,
    indexdiv,
    indexmod,
    truncmod,
)
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import broadcast_shape, broadcast_to
from relax_mlir.tvm.topi.ranks import AtLeastMatrix, AtLeastVector, Vector
from relax_mlir.tvm.topi.sizes import (
    as_int,
    compute_tensor,
    const_vector,
    get_const_int,
    simplified,
    unravel_index_wrapped,
)
from relax_mlir.tvm.topi.tag import INJECTIVE
from relax_mlir.tvm.topi.transform import as_list, checked_axis

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

_OPEN_END = sys.maxsize  # past the end of any axis


def take(
    a: Tensor,
    indices: Any,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "fast",
) -> Tensor:
    """Take elements of ``a`` along an axis.

    Args:
        a: the tensor.
        indices: indices along the axis: a tensor, or a scalar.
        axis: axis to index; by default ``a`` is flattened.
        batch_dims: number of leading batch dimensions that both tensors share.
        mode: treatment of indices out of range: ``clip`` clamps, ``wrap`` takes them
            modulo the size, ``fast`` applies :func:`nearest_index`.
    """
    if not isinstance(indices, Tensor):
        return _take_scalar(a, convert(indices), axis, mode)
    if axis is None:
        size: Any = const(1)
        for extent in a.shape:
            size = size * extent
        bring_into_range = _range_policy(mode, size)
        return compute_tensor(
            indices.shape,
            lambda i: a(*unravel_index_wrapped(bring_into_range(indices(*i)), a.shape)),
            "T_take",
            INJECTIVE,
        )
    dim = checked_axis(axis, a.ndim, "take")
    shared = batch_dims if batch_dims >= 0 else batch_dims + indices.ndim
    bring_into_range = _range_policy(mode, a.shape[dim])
    end = dim + indices.ndim - shared

    def element(i: tuple[Any, ...]) -> PrimExpr:
        index = indices(*i[:shared], *i[dim:end])
        return a(*i[:dim], bring_into_range(index), *i[end:])

    sizes = (*a.shape[:dim], *indices.shape[shared:], *a.shape[dim + 1 :])
    return compute_tensor(sizes, element, "T_take", INJECTIVE)


def _take_scalar(a: Tensor, index: PrimExpr, axis: int | None, mode: str) -> Tensor:
    """Take at a scalar index; the result drops the axis."""
    dim = checked_axis(axis or 0, a.ndim, "take")
    index = _range_policy(mode, a.shape[dim])(index)
    return compute_tensor(
        (*a.shape[:dim], *a.shape[dim + 1 :]),
        lambda i: a(*i[:dim], index, *i[dim:]),
        "T_take",
        INJECTIVE,
    )


def _range_policy(mode: str, size: Any) -> Callable[[PrimExpr], PrimExpr]:
    """The function that brings an index into range, by the mode of :func:`take`."""
    if mode == "fast":
        return lambda index: nearest_index(index, size)
    if mode == "clip":
        return lambda index: intrinsics.min(intrinsics.max(0, index), size - 1)
    if mode != "wrap":
        raise ValueError(f"take: expected mode `fast`, `clip` or `wrap`, got `{mode}`")
    return lambda index: truncmod(truncmod(index, size) + size, size)


def wrapped_index(index: PrimExpr, size: Any) -> PrimExpr:
    """Wrap a negative run-time index: it counts from the end of the axis.

    The result, an int64, may still be out of range.
    """
    wide = prim.cast("int64", index)
    if index.dtype.startswith("uint"):
        return wide
    return Select(wide < 0, wide + prim.cast("int64", size), wide)


def nearest_index(index: PrimExpr, size: Any) -> PrimExpr:
    """Wrap a negative index, then clamp it, so that no access is out of bounds."""
    known, extent = as_int(index), as_int(size)
    if known is not None and extent is not None and 0 <= known < extent:
        return index
    return clamped_index(wrapped_index(index, size), size)


def clamped_index(index: PrimExpr, size: Any) -> PrimExpr:
    """Clamp a run-time index to the range of the axis."""
    last = prim.cast("int64", size) - 1
    return intrinsics.max(intrinsics.min(prim.cast("int64", index), last), 0)


def is_in_range(index: PrimExpr, size: Any) -> PrimExpr:
    """Whether a wrapped index is in range."""
    return te.all(index >= 0, index < prim.cast("int64", size))


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Gather elements along an axis, as in ``torch.gather``.

    Indices out of range are clamped: :func:`nearest_index`.

    Raises:
        ValueError: the ranks differ, or the indices are not integers.
    """
    if data.ndim != indices.ndim or not indices.dtype.startswith(("int", "uint")):
        raise ValueError(
            f"gather: expected integers of {data.ndim} dimensions, got {indices.dtype} "
            f"of {indices.ndim}"
        )
    dim = checked_axis(axis, data.ndim, "gather")
    return compute_tensor(
        indices.shape,
        lambda i: data(
            *i[:dim], nearest_index(indices(*i), data.shape[dim]), *i[dim + 1 :]
        ),
        "T_gather",
        INJECTIVE,
    )


def gather_nd(a: Tensor, indices: AtLeastVector, batch_dims: int = 0) -> Tensor:
    """Gather elements or slices of ``a`` at multi-indices, the columns of ``indices``.

    Indices out of range are clamped: :func:`nearest_index`.

    Raises:
        ValueError: multi-indices are longer than the rank of ``a``.
    """
    count = get_const_int(indices.shape[0])
    if count > a.ndim:
        raise ValueError(f"gather_nd: expected at most {a.ndim} indices, got {count}")
    batch_rank = indices.ndim - 1

    def element(i: tuple[Any, ...]) -> PrimExpr:
        given = [indices(number, *i[:batch_rank]) for number in range(count)]
        sizes = a.shape[batch_dims : batch_dims + count]
        clamped = list(map(nearest_index, given, sizes))
        rest = [] if batch_dims + count == a.ndim else i[batch_rank:]
        return a(*i[:batch_dims], *clamped, *rest)

    sizes = (*indices.shape[1:], *a.shape[count + batch_dims :])
    return compute_tensor(sizes, element, "T_gather_nd", INJECTIVE)


def strided_slice(
    a: Tensor,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Sequence[Any] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = True,
) -> Tensor:
    """Strided slice of a tensor.

    Args:
        a: the tensor.
        begin: first index along each axis; negative ones count from the end.
        end: end index (exclusive); with ``slice_mode="size"``, the number of elements.
        strides: strides, by default 1.
        axes: axes to slice, by default the leading ones.
        slice_mode: ``end`` or ``size``.
        assume_inbound: whether symbolic bounds are assumed to be in range.
    """
    if any(isinstance(part, Tensor) for part in (begin, end, strides)):
        return _slice_by_tensors(a, begin, end, strides)
    begins, ends, steps = map(_slice_bounds, (begin, end, strides))
    bounds = [*begins, *ends, *steps]
    if axes is not None and len(axes):
        dims = [checked_axis(axis, a.ndim, "strided_slice") for axis in axes]
        sizes = [a.shape[i] for i in dims]
        steps = steps or [1] * len(dims)
    else:
        dims, sizes = list(range(a.ndim)), list(a.shape)
    is_static = all(p is None or as_int(p) is not None for p in (*bounds, *sizes))
    if is_static:
        return _static_slice(a, begins, ends, steps, dims, slice_mode)
    if axes is not None and len(axes):
        return _symbolic_slice(a, begins, ends, steps, dims, assume_inbound)
    return _clipped_slice(a, begins, ends, steps or [1] * len(begins))


def _slice_bounds(values: Any) -> list[Any]:
    """One value, or several, as expressions; None marks an open slice bound."""
    return [None if v is None else convert(v) for v in as_list(values)]


def _static_slice(
    a: Tensor,
    begins: Sequence[Any],
    ends: Sequence[Any],
    steps: Sequence[Any],
    dims: Sequence[int],
    mode: str,
) -> Tensor:
    shape = list(a.shape)
    slices: dict[int, tuple[int, int]] = {}
    for number, dim in enumerate(dims):
        size = get_const_int(a.shape[dim])
        step = _constant_bound(steps, number, 1) if mode == "end" else 1
        first = _constant_bound(begins, number, 0 if step > 0 else _OPEN_END)
        last = _constant_bound(ends, number, 0 if step < 0 else _OPEN_END)
        if mode == "size" and number < len(ends):
            last = first + last if last >= 0 else _OPEN_END
        first, last = (_clamped_bound(index, size, step) for index in (first, last))
        count = max(0, -(-(last - first) // step))
        shape[dim] = const(count, a.shape[dim].dtype)
        slices[dim] = (first, step)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                index * slices[axis][1] + slices[axis][0] if axis in slices else index
                for axis, index in enumerate(i)
            )
        )

    return compute_tensor(shape, element, "T_strided_slice", INJECTIVE)


def _constant_bound(values: Sequence[Any], number: int, default: int) -> int:
    is_given = number < len(values) and values[number] is not None
    return get_const_int(values[number]) if is_given else default


def _clamped_bound(index: int, size: int, step: int) -> int:
    low, high = (-1, size - 1) if step < 0 else (0, size)
    return min(max(index + size if index < 0 else index, low), high)


def _normalized_bound(index: Any, size: Any, step: PrimExprLike) -> PrimExpr:
    """Normalize a slice bound: wrap it if negative, clamp it to one past either end."""
    step = convert(step)
    index, size = prim.matched(convert(index), convert(size))
    if as_int(simplified(size - index)) in (0, 1, 2):
        # `size - k`, k <= 2, is negative only if size < k; wrapping it gives 0 or less,
        # so clamping to 0 is enough.
        non_negative = intrinsics.max(index, const(0, index.dtype))
    else:
        non_negative = if_then_else(index < 0, index + size, index)
    low = if_then_else(step < 0, const(-1, index.dtype), const(0, index.dtype))
    high = if_then_else(step < 0, size - 1, size)
    return intrinsics.min(intrinsics.max(non_negative, low), high)


def _symbolic_slice(
    a: Tensor,
    begins: Sequence[Any],
    ends: Sequence[Any],
    steps: Sequence[Any],
    dims: Sequence[int],
    assume_inbound: bool,
) -> Tensor:
    shape = list(a.shape)
    slices: dict[int, tuple[Any, Any]] = {}
    if not len(dims) == len(begins) == len(ends) == len(steps):
        raise ArgumentValueError(
            f"strided_slice: expected {len(dims)} begins, ends and strides, one per axis, "
            f"got {len(begins)}, {len(ends)} and {len(steps)}"
        )
    for begin, end, step, dim in zip(begins, ends, steps, dims, strict=True):
        size = a.shape[dim]
        first, last = convert(begin), convert(end)
        if not assume_inbound or all(as_int(v) is not None for v in (begin, end, size)):
            first, last = (
                simplified(_normalized_bound(v, size, step)) for v in (first, last)
            )
        if (as_int(step) or 1) < 0:
            count = intrinsics.ceildiv(first - last, -convert(step))
        else:
            count = intrinsics.ceildiv(last - first, step)
        shape[dim] = simplified(count)
        slices[dim] = (first, step)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                index * slices[axis][1] + slices[axis][0] if axis in slices else index
                for axis, index in enumerate(i)
            )
        )

    return compute_tensor(
        shape, element, "T_dynamic_strided_slice_with_axes", INJECTIVE
    )


def _clipped_slice(
    a: Tensor, begins: Sequence[Any], ends: Sequence[Any], steps: Sequence[Any]
) -> Tensor:
    """Slice of the leading axes; begins are clamped to the last element."""
    count = len(begins)
    if not count == len(ends) == len(steps) or count > a.ndim:
        raise ArgumentValueError(
            f"strided_slice: expected equally many begins, ends and strides, up to {a.ndim}, "
            f"got {count}, {len(ends)} and {len(steps)}"
        )
    sizes = [
        _fresh_size(e)
        if _is_data_dependent(b, e, s)
        else simplified(intrinsics.ceildiv(convert(e) - b, s))
        for b, e, s in zip(begins, ends, steps, strict=True)
    ]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        sliced = [
            intrinsics.min(convert(begin), size - 1) + index * step
            for index, begin, step, size in zip(
                i[:count], begins, steps, a.shape[:count], strict=True
            )
        ]
        return a(*sliced, *i[count:])

    shape = (*sizes, *a.shape[count:])
    return compute_tensor(shape, element, "T_dynamic_strided_slice", INJECTIVE)


def _is_data_dependent(*terms: Any) -> bool:
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
    a: Tensor, begin: Any, end: Any, strides: Any, output_shape: Sequence[PrimExprLike]
) -> Tensor:
    """Strided slice with bounds in vectors, and a given result shape."""
    first, steps = _as_tensor(begin), _as_tensor(strides)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        return a(
            *(
                _normalized_bound(first(axis), size, steps(axis)) + index * steps(axis)
                for axis, (index, size) in enumerate(zip(i, a.shape, strict=True))
            )
        )

    return compute_tensor(output_shape, element, "T_strided_slice_dynamic", INJECTIVE)


def one_hot(
    indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str
) -> Tensor:
    """One-hot encoding of indices along a new axis."""
    dim = indices.ndim if axis == -1 else axis
    on, off = prim.cast(dtype, on_value), prim.cast(dtype, off_value)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        index = indices(*i[:dim], *i[dim + 1 :])
        return Select(index.equal(i[dim]), on, off)

    depth_like = const(
        get_const_int(depth), indices.shape[0].dtype if indices.shape else "int32"
    )
    sizes = (*indices.shape[:dim], depth_like, *indices.shape[dim:])
    return compute_tensor(sizes, element, "T_one_hot", INJECTIVE)


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: float = 0, axis: int = 0
) -> Tensor:
    """Mask the elements of every sequence past its valid length.

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
        is_masked = time >= valid_length(i[1 - axis])
        return if_then_else(is_masked, const(mask_value, data.dtype), data(*i))

    return compute_tensor(data.shape, element, "T_sequence_mask", INJECTIVE)


def unravel(indices: Tensor, shape: Vector) -> Tensor:
    """Convert flat indices to multi-indices, the columns of the result."""
    rank = get_const_int(shape.shape[0])
    sizes = [shape.shape[0], *indices.shape[:1]]

    def element(i: tuple[Any, ...]) -> PrimExpr:
        rest = indices(*i[1:])
        value: PrimExpr = const(0)
        for axis in reversed(range(rank)):
            value = if_then_else(i[0].equal(axis), indexmod(rest, shape(axis)), value)
            rest = indexdiv(rest, shape(axis))
        return value

    return compute_tensor(sizes, element, "T_unravel", INJECTIVE)


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Advanced indexing of the leading axes by broadcast index tensors, as in numpy.

    Indices out of range are clamped: :func:`nearest_index`.

    Raises:
        ValueError: there are no index tensors, or more than axes.
    """
    if not 0 < len(indices) <= data.ndim:
        raise ArgumentValueError(
            f"adv_index: `indices`: expected 1 to {data.ndim} tensors, got {len(indices)}"
        )
    sizes: list[PrimExpr] = list(indices[0].shape)
    for index in indices[1:]:
        sizes = broadcast_shape(sizes, index.shape)
    wide = list(indices)
    if len(indices) > 1:
        wide = [broadcast_to(index, sizes) for index in indices]
    rank = len(sizes)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        leading = (index(*i[:rank]) for index in wide)
        return data(*map(nearest_index, leading, data.shape), *i[rank:])

    shape = (*sizes, *data.shape[len(wide) :])
    return compute_tensor(shape, element, "advanced_index", INJECTIVE)


index_tensor = adv_index


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Sequence[PrimExprLike],
    sparse_values: Tensor,
    default_value: Any = 0,
) -> Tensor:
    """Dense tensor of a sparse one: values at the given indices, a default elsewhere."""
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

    return compute_tensor(output_shape, element, "T_sparse_to_dense", INJECTIVE)


def matrix_set_diag(
    data: AtLeastMatrix, diagonal: Tensor, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Replace diagonals of matrices.

    Args:
        data: the matrices.
        diagonal: the new elements; one row per diagonal if there are several.
        k: the diagonal, or the lowest and the highest of several.
        align: alignment of the rows of superdiagonals and of subdiagonals, such as
            ``RIGHT_LEFT``.
    """
    ks = as_list(k)
    low, high = get_const_int(ks[0]), get_const_int(ks[-1] if len(ks) > 1 else ks[0])
    is_right = align.startswith("RIGHT"), align.endswith("RIGHT")
    rows, columns = data.shape[-2:]

    def value(i: tuple[Any, ...]) -> PrimExpr:
        row, column = i[-2:]
        if low == high:
            return diagonal(*i[:-2], column if low < 0 else row)
        diagonal_number = column - row
        longest = diagonal.shape[-1]
        above = (
            longest - _min(columns - diagonal_number, rows) if is_right[0] else const(0)
        )
        below = (
            longest - _min(columns, rows + diagonal_number) if is_right[1] else const(0)
        )
        offset = if_then_else(diagonal_number >= 0, above, below)
        position = if_then_else(diagonal_number >= 0, row, column) + offset
        return diagonal(*i[:-2], high - diagonal_number, position)

    def element(i: tuple[Any, ...]) -> PrimExpr:
        diagonal_number = i[-1] - i[-2]
        inner = if_then_else(diagonal_number <= high, value(i), data(*i))
        return if_then_else(diagonal_number >= low, inner, data(*i))

    return compute_tensor(data.shape, element, "T_matrix_set_diag", INJECTIVE)


def _min(a: Any, b: Any) -> PrimExpr:
    return if_then_else(a < b, a, b)
