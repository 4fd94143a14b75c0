"""Tensors in other layouts, which letters name: ``NCHW``, ``NHWC``, ``NCHW4c``."""

from __future__ import annotations

import re
from typing import Any

from relax_mlir import te
from relax_mlir.objects.functions import ceildiv, if_then_else, indexdiv, indexmod
from relax_mlir.objects.prim import const
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import elements, plain
from relax_mlir.topi.tag import INJECTIVE

__all__ = ["axes_of", "layout_transform"]


def axes_of(layout: str) -> dict[str, int]:
    """The axes of a layout: letters, with the size of those that are parts of one.

    Raises:
        ValueError: the text is no layout.
    """
    found = re.findall(r"(\d*)([A-Za-z])", layout)
    is_whole = "".join(n + c for n, c in found) == layout
    if not is_whole or any(bool(n) != c.islower() for n, c in found):
        raise ValueError(
            f"layout `{layout}`: expected capital letters, and small ones behind a size"
        )
    return {letter: int(number or 0) for number, letter in found}


def layout_transform(
    array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None"
) -> Tensor:
    """``array`` in another layout; what is beyond its end is 0.

    Raises:
        ValueError: the layouts have different axes, or not those of the tensor.
    """
    if src_layout == dst_layout:
        return array
    source, target = axes_of(src_layout), axes_of(dst_layout)
    if {c.upper() for c in source} != {c.upper() for c in target}:
        raise ValueError(
            f"layouts `{src_layout}` and `{dst_layout}` have different axes"
        )
    if len(source) != array.ndim:
        raise ValueError(
            f"layout `{src_layout}`: `{array.name}` has {array.ndim} dimensions"
        )
    sizes = _whole_sizes(array, source)

    def element(indices: tuple[Any, ...]) -> Any:
        places = _whole_places(target, indices)
        inside = te.all(*(places[c] < sizes[c] for c in source if c.isupper()))
        own = array(*(_part(c, source, places) for c in source))
        return if_then_else(inside, own, const(0, array.dtype))

    attrs = {
        "schedule_rule": schedule_rule,
        "src_layout": src_layout,
        "dst_layout": dst_layout,
        "input_shape": list(array.shape),
    }
    shape = [_part_size(c, target, sizes) for c in target]
    return elements(shape, element, "T_layout_trans", INJECTIVE, attrs)


def _whole_sizes(array: Tensor, layout: dict[str, int]) -> dict[str, Any]:
    """The size of every axis before parts of it became axes."""
    by_letter = dict(zip(layout, array.shape, strict=True))
    return {
        c: size * layout[c.lower()] if c.lower() in layout else size
        for c, size in by_letter.items()
        if c.isupper()
    }


def _whole_places(layout: dict[str, int], indices: tuple[Any, ...]) -> dict[str, Any]:
    """The index along every axis before parts of it became axes."""
    at = dict(zip(layout, indices, strict=True))
    return {
        c: at[c] * layout[c.lower()] + at[c.lower()] if c.lower() in layout else at[c]
        for c in layout
        if c.isupper()
    }


def _part(letter: str, layout: dict[str, int], places: dict[str, Any]) -> Any:
    """The index along one axis of a layout."""
    whole = places[letter.upper()]
    if letter.islower():
        return indexmod(whole, layout[letter])
    inner = layout.get(letter.lower())
    return indexdiv(whole, inner) if inner else whole


def _part_size(letter: str, layout: dict[str, int], sizes: dict[str, Any]) -> Any:
    """The size of one axis of a layout."""
    if letter.islower():
        return layout[letter]
    inner = layout.get(letter.lower())
    return plain(ceildiv(sizes[letter], inner)) if inner else sizes[letter]
