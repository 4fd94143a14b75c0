"""Layout transformation between layouts such as ``NCHW``, ``NHWC`` and ``NCHW4c``."""

from __future__ import annotations

import re
from typing import Any

from relax_mlir.objects.prim import const
from relax_mlir.objects.prim.intrinsics import ceildiv, if_then_else, indexdiv, indexmod
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import compute_tensor, simplified
from relax_mlir.tvm.topi.tag import INJECTIVE

__all__ = ["layout_transform", "parse_layout"]


def parse_layout(layout: str) -> dict[str, int]:
    """Parse a layout into its axes and their block sizes (0 for a primal axis).

    Raises:
        ValueError: the string is not a layout.
    """
    axes = re.findall(r"(\d*)([A-Za-z])", layout)
    is_parsed = "".join(n + c for n, c in axes) == layout
    if not is_parsed or any(bool(n) != c.islower() for n, c in axes):
        raise ValueError(
            f"layout `{layout}`: expected capital letters, and small letters after a size"
        )
    return {letter: int(number or 0) for number, letter in axes}


def layout_transform(
    array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None"
) -> Tensor:
    """Transform the layout of a tensor; incomplete blocks are padded with 0.

    Raises:
        ValueError: the layouts have different axes, or their rank is not the tensor's.
    """
    if src_layout == dst_layout:
        return array
    source, target = parse_layout(src_layout), parse_layout(dst_layout)
    if {c.upper() for c in source} != {c.upper() for c in target}:
        raise ValueError(
            f"layouts `{src_layout}` and `{dst_layout}` have different axes"
        )
    if len(source) != array.ndim:
        raise ValueError(
            f"layout `{src_layout}`: `{array.name}` has {array.ndim} dimensions"
        )
    sizes = _primal_sizes(array, source)

    def element(indices: tuple[Any, ...]) -> Any:
        primal = _primal_indices(target, indices)
        inside = te.all(*(primal[c] < sizes[c] for c in source if c.isupper()))
        value = array(*(_axis_index(c, source, primal) for c in source))
        return if_then_else(inside, value, const(0, array.dtype))

    attrs = {
        "schedule_rule": schedule_rule,
        "src_layout": src_layout,
        "dst_layout": dst_layout,
        "input_shape": list(array.shape),
    }
    shape = [_axis_size(c, target, sizes) for c in target]
    return compute_tensor(shape, element, "T_layout_trans", INJECTIVE, attrs)


def _primal_sizes(array: Tensor, layout: dict[str, int]) -> dict[str, Any]:
    """Sizes of the primal axes: outer size times block size."""
    by_letter = dict(zip(layout, array.shape, strict=True))
    return {
        c: size * layout[c.lower()] if c.lower() in layout else size
        for c, size in by_letter.items()
        if c.isupper()
    }


def _primal_indices(layout: dict[str, int], indices: tuple[Any, ...]) -> dict[str, Any]:
    """Indices along the primal axes, from outer and inner indices."""
    by_letter = dict(zip(layout, indices, strict=True))
    return {
        c: by_letter[c] * layout[c.lower()] + by_letter[c.lower()]
        if c.lower() in layout
        else by_letter[c]
        for c in layout
        if c.isupper()
    }


def _axis_index(letter: str, layout: dict[str, int], primal: dict[str, Any]) -> Any:
    """Index along one (outer or inner) axis of a layout."""
    primal_index = primal[letter.upper()]
    if letter.islower():
        return indexmod(primal_index, layout[letter])
    block = layout.get(letter.lower())
    return indexdiv(primal_index, block) if block else primal_index


def _axis_size(letter: str, layout: dict[str, int], sizes: dict[str, Any]) -> Any:
    """Size of one (outer or inner) axis of a layout."""
    if letter.islower():
        return layout[letter]
    block = layout.get(letter.lower())
    return simplified(ceildiv(sizes[letter], block)) if block else sizes[letter]
