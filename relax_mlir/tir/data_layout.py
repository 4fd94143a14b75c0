"""Layouts by name, and indices between two of them: ``tir.data_layout``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.simplify import simplify

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]

_UNDEFINED = "__undef__"
_AXIS = re.compile(r"(\d*)([A-Za-z])")


@dataclass(frozen=True)
class Layout:
    """What each axis of a tensor stands for, such as ``NCHW16c``.

    A capital is an axis; a small letter with a number, so many neighbours on the axis of
    its capital.

    Attributes:
        name: the letters and numbers.
        dtype: type of indices.
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
        """The axes as objects; how long one of a capital is, is a variable."""
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
        """The number of an axis, or -1 where there is none of this letter."""
        return self.letters.index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """How many neighbours on an axis have one of their own, or -1."""
        return dict(self._parts).get(axis.lower(), -1) or -1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class BijectiveLayout:
    """Two layouts of the same axes.

    Attributes:
        src_layout, dst_layout: the layouts.
    """

    src_layout: Layout
    dst_layout: Layout

    def forward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """Where an element of the first layout lies in the second."""
        return _moved(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """Where an element of the second layout lies in the first."""
        return _moved(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The shape in the second layout."""
        return _reshaped(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The shape in the first layout."""
        return _reshaped(self.dst_layout, self.src_layout, shape)


def _joined(layout: Layout, values: Sequence[Any]) -> dict[str, PrimExpr]:
    """Values of axes, those of neighbours joined with their capital's."""
    if len(values) != len(layout):
        raise ValueError(f"layout {layout}: expected {len(layout)}, got {len(values)}")
    given = dict(zip(layout.letters, map(prim.convert, values), strict=True))
    joined: dict[str, PrimExpr] = {}
    for letter, value in given.items():
        if letter.isupper():
            factor = layout.factor_of(letter)
            inner = given.get(letter.lower(), prim.convert(0))
            joined[letter] = value if factor < 0 else value * factor + inner
    return joined


def _moved(source: Layout, target: Layout, index: Sequence[Any]) -> list[PrimExpr]:
    _check_count(source, index, "indices")
    return _parted(target, _joined(source, index))


def _parted(layout: Layout, joined: Mapping[str, PrimExpr]) -> list[PrimExpr]:
    found = []
    for letter in layout.letters:
        whole, factor = joined[letter.upper()], layout.factor_of(letter)
        if letter.isupper():
            found.append(whole if factor < 0 else whole // factor)
        else:
            found.append(whole % factor)
    return list(map(simplify, found))


def _check_count(layout: Layout, values: Sequence[Any], what: str) -> None:
    if len(values) != len(layout.letters):
        raise ArgumentValueError(
            f"BijectiveLayout: `{layout.name}`: expected {len(layout.letters)} {what}, "
            f"got {len(values)}"
        )


def _reshaped(source: Layout, target: Layout, shape: Sequence[Any]) -> list[PrimExpr]:
    _check_count(source, shape, "sizes")
    outer = [
        size if letter.isupper() else 0
        for letter, size in zip(source.letters, shape, strict=True)
    ]
    sizes = _joined(source, outer)
    found = []
    for letter in target.letters:
        size, factor = sizes[letter.upper()], target.factor_of(letter)
        if letter.isupper():
            found.append(size if factor < 0 else (size + factor - 1) // factor)
        else:
            found.append(prim.convert(factor))
    return list(map(simplify, found))


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a name.

    Args:
        layout_str: such as ``NCHW`` or ``NCHW16c``.
        dtype: type of indices.

    Raises:
        TypeError: that is no type of integers.
    """
    if not str(dtype).startswith(("int", "uint")):
        raise TypeError(f"layout `{layout_str}`: expected integers, got {dtype}")
    return Layout(layout_str, dtype)


def bijective_layout(
    src_layout: str | Layout, dst_layout: str | Layout
) -> BijectiveLayout | None:
    """The way between two layouts, or None if they are not of the same axes."""
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
