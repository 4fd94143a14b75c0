"""Tensors with more elements around them, or between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.errors import shown
from relax_mlir.objects import functions, prim
from relax_mlir.objects.functions import if_then_else, indexdiv, indexmod
from relax_mlir.objects.prim import PrimExpr, const, convert
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import elements, equal_const_int, plain
from relax_mlir.topi.tag import INJECTIVE

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
    data: Tensor, pad_before: Sequence[Term], pad_after: Sequence[Term] | None = None
) -> tuple[PrimExpr, ...]:
    """The shape of a tensor with more elements around it.

    Raises:
        ValueError: there is not one number for every dimension.
    """
    after = pad_before if pad_after is None else pad_after
    for name, given in (("pad_before", pad_before), ("pad_after", after)):
        if len(given) != data.ndim:
            raise ValueError(
                f"{name}: expected {data.ndim} numbers for `{data.name}`, got {len(given)}"
            )
    return tuple(
        plain(size + convert(low) + convert(high))
        for size, low, high in zip(data.shape, pad_before, after, strict=True)
    )


def pad(
    data: Tensor,
    pad_before: Sequence[Term],
    pad_after: Sequence[Term] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """``data`` with ``pad_value`` around it.

    Args:
        data: the tensor.
        pad_before: how many elements before it, per dimension.
        pad_after: how many behind it; by default as many.
        pad_value: what they are.
        name: of the result.
        attrs: of the result.
    """
    sizes = get_padded_shape(data, pad_before, pad_after)
    after = pad_after or pad_before
    value = (
        pad_value if isinstance(pad_value, PrimExpr) else const(pad_value, data.dtype)
    )

    def element(*indices: Any) -> PrimExpr:
        inside, places = [], []
        parts = zip(indices, data.shape, pad_before, after, strict=True)
        for index, size, low, high in parts:
            if equal_const_int(low, 0) and equal_const_int(high, 0):
                places.append(index)
                continue
            places.append(index - low)
            inside += [index >= low, index < size + low]
        if not inside:
            return data(*places)
        return if_then_else(te.all(*inside), data(*places), value)

    return te.compute(sizes, element, name, _TAG, attrs)


def pad_ends(
    data: Tensor,
    before: Sequence[Any],
    after: Sequence[Any],
    value: PrimExpr,
    name: str,
) -> Tensor:
    """``data`` with ``value`` around it, each end looked at only where it is padded."""

    def element(indices: tuple[Any, ...]) -> PrimExpr:
        inside, places = [], []
        parts = zip(indices, data.shape, before, after, strict=True)
        for index, size, low, high in parts:
            places.append(index - low)
            if not equal_const_int(low, 0):
                inside.append(index >= low)
            if not equal_const_int(high, 0):
                inside.append(index < low + size)
        if not inside:
            return data(*places)
        return if_then_else(te.all(*inside), data(*places), value)

    return elements(get_padded_shape(data, before, after), element, name, _TAG)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Term],
    pad_after: Sequence[Term] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """``data`` with its mirror images around it.

    Args:
        data: the tensor.
        pad_before: how many elements before it, per dimension.
        pad_after: how many behind it; by default as many.
        mode: ``SYMMETRIC`` repeats the elements at the border, ``REFLECT`` does not.
        name: of the result.

    Raises:
        ValueError: the mode is neither.
    """
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(f"mirror_pad: expected SYMMETRIC or REFLECT, got {mode}")
    sizes = get_padded_shape(data, pad_before, pad_after)
    after = pad_after or pad_before
    extra = int(mode == "SYMMETRIC")

    def place(index: Any, size: Any, low: Any, high: Any) -> Any:
        if equal_const_int(low, 0) and equal_const_int(high, 0):
            return index
        own = index - low
        mirrored = if_then_else(index < low, -own - extra, own)
        behind = (2 * (size - 1)) - own + extra
        return if_then_else(index >= size + low, behind, mirrored)

    def element(*indices: Any) -> PrimExpr:
        parts = zip(indices, data.shape, pad_before, after, strict=True)
        return data(*(place(*part) for part in parts))

    return te.compute(sizes, element, name, _TAG)


def _moved(name: str, place: Callable[[Any, Any], Any]) -> Callable[..., Tensor]:
    """Padding that takes elements of the tensor itself.

    Args:
        name: of the result by default.
        place: from a place before or behind the tensor, and a size, to one inside.
    """

    def apply(
        data: Tensor,
        pad_before: Sequence[Term],
        pad_after: Sequence[Term] | None = None,
        name: str = name,
    ) -> Tensor:
        sizes = get_padded_shape(data, pad_before, pad_after)

        def element(*indices: Any) -> PrimExpr:
            parts = zip(indices, pad_before, data.shape, strict=True)
            return data(*(place(index - low, size) for index, low, size in parts))

        return te.compute(sizes, element, name, _TAG)

    return apply


def _reflected(index: Any, size: Any) -> Any:
    last = size - 1
    return last - functions.abs(last - functions.abs(index))


reflect_pad = _moved("ReflectPadInput", _reflected)
reflect_pad.__doc__ = "``data`` with its mirror images around it, borders not repeated."
replicate_pad = _moved(
    "ReplicatePadInput", lambda i, size: functions.max(0, functions.min(size - 1, i))
)
replicate_pad.__doc__ = "``data`` with its outermost elements repeated around it."
circular_pad = _moved("CircularPadInput", lambda i, size: indexmod(i + size, size))
circular_pad.__doc__ = "``data`` with its other end around it."


def dilate(
    data: Tensor,
    strides: Sequence[Term],
    dilation_value: Terms = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """``data`` with ``dilation_value`` between its elements.

    Raises:
        ValueError: there is not one stride for every dimension.
    """
    if len(strides) != data.ndim:
        raise ValueError(
            f"dilate: expected {data.ndim} strides for `{data.name}`, got {len(strides)}"
        )
    sizes = [plain((n - 1) * s + 1) for n, s in zip(data.shape, strides, strict=True)]

    def element(*indices: Any) -> PrimExpr:
        hits, places = [], []
        for index, stride in zip(indices, strides, strict=True):
            if equal_const_int(stride, 1):
                places.append(index)
                continue
            places.append(indexdiv(index, stride))
            hits.append(indexmod(index, stride).equal(0))
        if not hits:
            return data(*places)
        return if_then_else(
            te.all(*hits), data(*places), prim.const(dilation_value, data.dtype)
        )

    return te.compute(sizes, element, name, f"{INJECTIVE},dilate")


def get_pad_tuple_generic(
    padding: Terms | str, kernel: Sequence[Term]
) -> tuple[list[Any], list[Any]]:
    """Padding before and behind every dimension of a window.

    Args:
        padding: one number, one or two per dimension, ``VALID`` or ``SAME``.
        kernel: the sizes of the window.

    Raises:
        ValueError: it is none of these.
    """
    rank = len(kernel)
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * rank:
        return list(padding[:rank]), list(padding[rank:])
    if isinstance(padding, (tuple, list)) and len(padding) == rank:
        both = [p * 2 for p in padding]
    elif isinstance(padding, (int, prim.IntImm)):
        both = [padding * 2] * rank
    elif padding in ("VALID", "SAME"):
        both = [k - 1 if padding == "SAME" else 0 for k in kernel]
    else:
        raise ValueError(
            f"padding: expected a number, {rank} or {2 * rank} of them, VALID or SAME, "
            f"got {shown(padding)}"
        )
    before = [(p + 1) // 2 for p in both]
    return before, [p - b for p, b in zip(both, before, strict=True)]


def get_pad_tuple(padding: Terms | str, kernel: Sequence[Term]) -> tuple[Any, ...]:
    """Padding above, left, below and right of a window of two dimensions."""
    before, after = get_pad_tuple_generic(padding, kernel)
    return (*before, *after)


get_pad_tuple1d = get_pad_tuple
get_pad_tuple3d = get_pad_tuple
