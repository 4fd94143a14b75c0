"""Padding and dilation of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, const, convert, intrinsics
from relax_mlir.objects.prim.intrinsics import if_then_else, indexdiv, indexmod
from relax_mlir.objects.prim.terms import PrimExprLike, PrimExprLikes
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import compute_tensor, equal_const_int, simplified
from relax_mlir.tvm.topi.tag import INJECTIVE

__all__ = [
    "circular_pad",
    "dilate",
    "get_pad_tuple",
    "get_pad_tuple1d",
    "get_pad_tuple3d",
    "get_pad_tuple_generic",
    "get_padded_shape",
    "mirror_pad",
    "pad",
    "reflect_pad",
    "replicate_pad",
]

_TAG = f"{INJECTIVE},pad"


def get_padded_shape(
    data: Tensor,
    pad_before: Sequence[PrimExprLike],
    pad_after: Sequence[PrimExprLike] | None = None,
) -> tuple[PrimExpr, ...]:
    """Shape of a tensor after padding.

    Raises:
        ValueError: the number of paddings differs from the rank.
    """
    after = pad_before if pad_after is None else pad_after
    for name, given in (("pad_before", pad_before), ("pad_after", after)):
        if len(given) != data.ndim:
            raise ValueError(
                f"{name}: expected {data.ndim} numbers for `{data.name}`, got {len(given)}"
            )
    return tuple(
        simplified(size + convert(low) + convert(high))
        for size, low, high in zip(data.shape, pad_before, after, strict=True)
    )


def pad(
    data: Tensor,
    pad_before: Sequence[PrimExprLike],
    pad_after: Sequence[PrimExprLike] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """Pad a tensor with a constant.

    Args:
        data: the tensor.
        pad_before: padding before each dimension.
        pad_after: padding after each dimension; by default ``pad_before``.
        pad_value: the constant.
        name: name of the result.
        attrs: attributes of the result.
    """
    sizes = get_padded_shape(data, pad_before, pad_after)
    after = pad_after or pad_before
    value = (
        pad_value if isinstance(pad_value, PrimExpr) else const(pad_value, data.dtype)
    )

    def element(*indices: Any) -> PrimExpr:
        inside, source = [], []
        parts = zip(indices, data.shape, pad_before, after, strict=True)
        for index, size, low, high in parts:
            if equal_const_int(low, 0) and equal_const_int(high, 0):
                source.append(index)
                continue
            source.append(index - low)
            inside += [index >= low, index < size + low]
        if not inside:
            return data(*source)
        return if_then_else(te.all(*inside), data(*source), value)

    return te.compute(sizes, element, name, _TAG, attrs)


def pad_ends(
    data: Tensor,
    before: Sequence[Any],
    after: Sequence[Any],
    value: PrimExpr,
    name: str,
) -> Tensor:
    """Pad with a constant; bounds are checked only at ends that are padded."""

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        inside, source = [], []
        parts = zip(indices, data.shape, before, after, strict=True)
        for index, size, low, high in parts:
            source.append(index - low)
            if not equal_const_int(low, 0):
                inside.append(index >= low)
            if not equal_const_int(high, 0):
                inside.append(index < low + size)
        if not inside:
            return data(*source)
        return if_then_else(te.all(*inside), data(*source), value)

    return compute_tensor(get_padded_shape(data, before, after), element, name, _TAG)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[PrimExprLike],
    pad_after: Sequence[PrimExprLike] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Mirror padding.

    Args:
        data: the tensor.
        pad_before: padding before each dimension.
        pad_after: padding after each dimension; by default ``pad_before``.
        mode: ``SYMMETRIC`` repeats the elements at the border, ``REFLECT`` does not.
        name: name of the result.

    Raises:
        ValueError: unknown mode.
    """
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(f"mirror_pad: expected SYMMETRIC or REFLECT, got {mode}")
    sizes = get_padded_shape(data, pad_before, pad_after)
    after = pad_after or pad_before
    border_repeats = int(mode == "SYMMETRIC")

    def source_index(index: Any, size: Any, low: Any, high: Any) -> Any:
        if equal_const_int(low, 0) and equal_const_int(high, 0):
            return index
        offset = index - low
        mirrored = if_then_else(index < low, -offset - border_repeats, offset)
        mirrored_at_end = (2 * (size - 1)) - offset + border_repeats
        return if_then_else(index >= size + low, mirrored_at_end, mirrored)

    def element(*indices: Any) -> PrimExpr:
        parts = zip(indices, data.shape, pad_before, after, strict=True)
        return data(*(source_index(*part) for part in parts))

    return te.compute(sizes, element, name, _TAG)


def _index_map_pad(
    name: str, source_index: Callable[[Any, Any], Any]
) -> Callable[..., Tensor]:
    """Make an operator that pads with elements of the tensor.

    Args:
        name: default name of the result.
        source_index: maps an index, possibly out of range, and a size to an index in
            range.
    """

    def apply(
        data: Tensor,
        pad_before: Sequence[PrimExprLike],
        pad_after: Sequence[PrimExprLike] | None = None,
        name: str = name,
    ) -> Tensor:
        sizes = get_padded_shape(data, pad_before, pad_after)

        def element(*indices: Any) -> PrimExpr:
            parts = zip(indices, pad_before, data.shape, strict=True)
            return data(
                *(source_index(index - low, size) for index, low, size in parts)
            )

        return te.compute(sizes, element, name, _TAG)

    return apply


def _reflected(index: Any, size: Any) -> Any:
    last = size - 1
    return last - intrinsics.abs(last - intrinsics.abs(index))


reflect_pad = _index_map_pad("ReflectPadInput", _reflected)
reflect_pad.__doc__ = "Reflection padding: mirrored without repeating the border."
replicate_pad = _index_map_pad(
    "ReplicatePadInput", lambda i, size: intrinsics.max(0, intrinsics.min(size - 1, i))
)
replicate_pad.__doc__ = "Replication padding: repeats the border elements."
circular_pad = _index_map_pad(
    "CircularPadInput", lambda i, size: indexmod(i + size, size)
)
circular_pad.__doc__ = "Circular padding: wraps around to the other end."


def dilate(
    data: Tensor,
    strides: Sequence[PrimExprLike],
    dilation_value: PrimExprLikes = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """Dilate a tensor: insert ``dilation_value`` between its elements.

    Raises:
        ValueError: the number of strides differs from the rank.
    """
    if len(strides) != data.ndim:
        raise ValueError(
            f"dilate: expected {data.ndim} strides for `{data.name}`, got {len(strides)}"
        )
    sizes = [
        simplified((n - 1) * s + 1) for n, s in zip(data.shape, strides, strict=True)
    ]

    def element(*indices: Any) -> PrimExpr:
        is_multiple, source = [], []
        for index, stride in zip(indices, strides, strict=True):
            if equal_const_int(stride, 1):
                source.append(index)
                continue
            source.append(indexdiv(index, stride))
            is_multiple.append(indexmod(index, stride).equal(0))
        if not is_multiple:
            return data(*source)
        return if_then_else(
            te.all(*is_multiple), data(*source), prim.const(dilation_value, data.dtype)
        )

    return te.compute(sizes, element, name, f"{INJECTIVE},dilate")


def get_pad_tuple_generic(
    padding: PrimExprLikes | str, kernel: Sequence[PrimExprLike]
) -> tuple[list[Any], list[Any]]:
    """Normalize padding to lists of the padding before and after each dimension.

    Args:
        padding: a scalar, one or two values per dimension, ``VALID`` or ``SAME``.
        kernel: sizes of the (dilated) kernel.

    Raises:
        ValueError: ``padding`` is none of these.
    """
    rank = len(kernel)
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * rank:
        return list(padding[:rank]), list(padding[rank:])
    if isinstance(padding, (tuple, list)) and len(padding) == rank:
        totals = [p * 2 for p in padding]
    elif isinstance(padding, (int, prim.IntImm)):
        totals = [padding * 2] * rank
    elif padding in ("VALID", "SAME"):
        totals = [k - 1 if padding == "SAME" else 0 for k in kernel]
    else:
        raise ValueError(
            f"padding: expected a number, {rank} or {2 * rank} of them, VALID or SAME, "
            f"got {short_repr(padding)}"
        )
    before = [(p + 1) // 2 for p in totals]
    return before, [p - b for p, b in zip(totals, before, strict=True)]


def get_pad_tuple(
    padding: PrimExprLikes | str, kernel: Sequence[PrimExprLike]
) -> tuple[Any, ...]:
    """Top, left, bottom and right padding of a 2-D kernel."""
    before, after = get_pad_tuple_generic(padding, kernel)
    return (*before, *after)


get_pad_tuple1d = get_pad_tuple
get_pad_tuple3d = get_pad_tuple
