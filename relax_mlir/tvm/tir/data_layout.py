"""Data layouts such as ``NCHW16c``, and index conversion between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.simplify import simplify

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]

_UNDEFINED = "__undef__"
_AXIS = re.compile(r"(\d*)([A-Za-z])")


@dataclass(frozen=True)
class Layout:
    """A data layout such as ``NCHW16c``.

    A capital letter is a primal axis; a small letter with a factor is the inner part of the primal
    axis of that letter.

    Attributes:
        name: the layout string.
        dtype: the dtype of indices.
    """

    name: str
    dtype: str = "int32"

    @property
    def _parts(self) -> list[tuple[str, int]]:
        if self.name == _UNDEFINED:
            return []
        return [(letter, int(n or 0)) for n, letter in _AXIS.findall(self.name)]

    @property
    def letters(self) -> tuple[str, ...]:
        """The letter of each axis."""
        return tuple(letter for letter, _ in self._parts)

    @property
    def axes(self) -> tuple[IterVar, ...]:
        """The axes as iter vars; the extent of a primal axis is a variable."""
        zero = prim.const(0, self.dtype)
        found = []
        for letter, factor in self._parts:
            size = prim.const(factor, self.dtype) if factor else Var(letter, self.dtype)
            run = Range.from_min_extent(zero, size)
            found.append(IterVar(run, Var(letter.lower(), self.dtype)))
        return tuple(found)

    def __len__(self) -> int:
        return len(self.letters)

    def __contains__(self, axis: str) -> bool:
        return axis in self.letters

    def __getitem__(self, index: int) -> str:
        return self.letters[index]

    def index_of(self, axis: str) -> int:
        """The position of an axis, or -1."""
        return self.letters.index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """The split factor of an axis, or -1."""
        return dict(self._parts).get(axis.lower(), -1) or -1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class BijectiveLayout:
    """A bijective conversion between two layouts.

    Attributes:
        src_layout, dst_layout: the layouts.
    """

    src_layout: Layout
    dst_layout: Layout

    def forward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """Indices in the source layout converted to the destination layout."""
        return _convert_index(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """Indices in the destination layout converted to the source layout."""
        return _convert_index(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """A shape in the source layout converted to the destination layout."""
        return _convert_shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """A shape in the destination layout converted to the source layout."""
        return _convert_shape(self.dst_layout, self.src_layout, shape)


def _to_primal(layout: Layout, values: Sequence[Any]) -> dict[str, PrimExpr]:
    """The indices or extents of primal axes, with the inner parts folded in."""
    given = dict(zip(layout.letters, map(prim.convert, values), strict=True))
    primal: dict[str, PrimExpr] = {}
    for letter, value in given.items():
        if letter.isupper():
            factor = layout.factor_of(letter)
            inner = given.get(letter.lower(), prim.convert(0))
            primal[letter] = value if factor < 0 else value * factor + inner
    return primal


def _convert_index(
    source: Layout, target: Layout, index: Sequence[Any]
) -> list[PrimExpr]:
    _check_count(source, index, "indices")
    return _from_primal(target, _to_primal(source, index))


def _from_primal(layout: Layout, primal: Mapping[str, PrimExpr]) -> list[PrimExpr]:
    found = []
    for letter in layout.letters:
        index_or_extent, factor = primal[letter.upper()], layout.factor_of(letter)
        if letter.isupper():
            found.append(index_or_extent if factor < 0 else index_or_extent // factor)
        else:
            found.append(index_or_extent % factor)
    return list(map(simplify, found))


def _check_count(layout: Layout, values: Sequence[Any], kind: str) -> None:
    if len(values) != len(layout.letters):
        raise ArgumentValueError(
            f"BijectiveLayout: `{layout.name}`: expected {len(layout.letters)} {kind}, "
            f"got {len(values)}"
        )


def _convert_shape(
    source: Layout, target: Layout, shape: Sequence[Any]
) -> list[PrimExpr]:
    _check_count(source, shape, "sizes")
    outer = [
        size if letter.isupper() else 0
        for letter, size in zip(source.letters, shape, strict=True)
    ]
    sizes = _to_primal(source, outer)
    found = []
    for letter in target.letters:
        size, factor = sizes[letter.upper()], target.factor_of(letter)
        if letter.isupper():
            found.append(size if factor < 0 else (size + factor - 1) // factor)
        else:
            found.append(prim.convert(factor))
    return list(map(simplify, found))


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a layout string.

    Args:
        layout_str: such as ``NCHW`` or ``NCHW16c``.
        dtype: the dtype of indices.

    Raises:
        TypeError: the dtype is not an integer.
    """
    if not str(dtype).startswith(("int", "uint")):
        raise TypeError(f"layout `{layout_str}`: expected integers, got {dtype}")
    return Layout(layout_str, dtype)


def bijective_layout(
    src_layout: str | Layout, dst_layout: str | Layout
) -> BijectiveLayout | None:
    """The conversion between two layouts, or None if their primal axes differ."""
    source, target = (
        layout(given) if isinstance(given, str) else given
        for given in (src_layout, dst_layout)
    )
    axes = [
        {letter for letter in one.letters if letter.isupper()}
        for one in (source, target)
    ]
    if not axes[0] or axes[0] != axes[1]:
        return None
    return BijectiveLayout(source, target)
