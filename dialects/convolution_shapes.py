"""What a convolution is in memory, but for where: plain numbers, as libraries take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

__all__ = ["ConvolutionShape", "packed_strides", "span"]

_RANKS = range(1, 4)
_LIMIT = 1 << 31  # of each number, as libraries count


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of pictures whose number is open.

    Filter ``k`` of group ``g`` sums, over its channels and a window, elements of a picture
    times weights; windows begin ``pads`` elements before the picture, and are ``steps``
    apart. What is outside of the picture, on both sides, is 0.

    Attributes:
        channels: of a picture; filters: channels of a result; groups: of both, which do
            not see each other.
        picture, window, result: sizes along each axis, of which there are one to three.
        steps, dilations: elements from one window to the next, and within one.
        pads: zeros at each end of a picture.
        picture_strides, result_strides: elements from one picture to the next, from one
            channel to the next, and to the next along each axis.
        channels_last: whether the weights lie as [filters, window, channels of a group],
            without gaps; else as [filters, channels of a group, window].
    """

    channels: int
    filters: int
    groups: int
    picture: tuple[int, ...]
    window: tuple[int, ...]
    result: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    picture_strides: tuple[int, ...]
    result_strides: tuple[int, ...]
    channels_last: bool

    def fields(self) -> list[Any]:  # Any: what JSON holds
        """As JSON holds it."""
        parts = astuple(self)
        return [list(part) if isinstance(part, tuple) else part for part in parts]

    @staticmethod
    def from_fields(fields: Sequence[Any]) -> ConvolutionShape:  # Any: as above
        """What :meth:`fields` made; numbers are not looked at."""
        parts = [tuple(part) if isinstance(part, list) else part for part in fields]
        return ConvolutionShape(*parts)

    def check(self) -> None:
        """Refuse numbers that are no convolution.

        Raises:
            ValueError: it says which.
        """
        rank = len(self.picture) if isinstance(self.picture, tuple) else 0
        axes = self._axes
        strides = (self.picture_strides, self.result_strides)
        fits = rank in _RANKS and all(_are_numbers(axis, rank, 1) for axis in axes)
        fits = fits and _are_numbers(self.pads, rank, 0)
        fits = fits and all(_are_numbers(numbers, rank + 2, 1) for numbers in strides)
        counts = (self.channels, self.filters, self.groups)
        fits = fits and _are_numbers(counts, 3, 1) and type(self.channels_last) is bool
        if not fits:
            raise ValueError(f"a convolution of {self.fields()}")
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"{self.channels} channels and {self.filters} filters of {self.groups} "
                "groups"
            )
        if self.result != self.counts:
            raise ValueError(
                f"a convolution with results of {self.result}: expected {self.counts}"
            )
        tensors = (
            (self.channels, self.picture, self.picture_strides),
            (self.filters, self.result, self.result_strides),
        )
        if any(_overlap((_LIMIT, n, *sizes), steps) for n, sizes, steps in tensors):
            raise ValueError(
                f"strides of {self.picture_strides} and {self.result_strides}: elements "
                "lie on each other"
            )

    @property
    def _axes(self) -> tuple[tuple[int, ...], ...]:
        sizes = (self.picture, self.window, self.result)
        return (*sizes, self.steps, self.dilations)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many windows there are along each axis; negative numbers where none fits."""
        spans = zip(
            *(self.picture, self.window, self.steps, self.dilations, self.pads),
            strict=True,
        )
        return tuple(
            (size + 2 * pad - dilation * (taps - 1) - 1) // step + 1
            for size, taps, step, dilation, pad in spans
        )

    @property
    def terms(self) -> int:
        """Products that are summed for one result."""
        return self.channels // self.groups * math.prod(self.window)

    @property
    def weight_elements(self) -> int:
        """Of all weights."""
        return self.filters * self.terms

    @property
    def weight_strides(self) -> tuple[int, ...]:
        """Elements from one filter to the next, from one of its channels, and along it."""
        channels = self.channels // self.groups
        return packed_strides(channels, self.window, self.channels_last)

    def is_packed(self, *, channels_last: bool) -> bool:
        """Whether pictures and results lie without gaps, in one of two orders.

        Args:
            channels_last: whether it is [axes, channels]; else [channels, axes].
        """
        return all(
            _are_packed(channels, sizes, strides, channels_last)
            for channels, sizes, strides in (
                (self.channels, self.picture, self.picture_strides),
                (self.filters, self.result, self.result_strides),
            )
        )

    def picture_elements(self, batch: int) -> int:
        """From the first element of ``batch`` pictures to the end of the last."""
        sizes = (batch, self.channels, *self.picture)
        return span(sizes, self.picture_strides)

    def result_elements(self, batch: int) -> int:
        """The same of results."""
        sizes = (batch, self.filters, *self.result)
        return span(sizes, self.result_strides)


def _are_numbers(numbers: Any, count: int, least: int) -> bool:  # Any: from files
    return (
        isinstance(numbers, tuple)
        and len(numbers) == count
        and all(type(n) is int and least <= n < _LIMIT for n in numbers)
    )


def span(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one of a tensor to the end of the last."""
    steps = zip(sizes, strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)


def _overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor may be one."""
    reach = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def packed_strides(
    channels: int, sizes: Sequence[int], channels_last: bool
) -> tuple[int, ...]:
    """Strides of what lies without gaps: of it all, of channels, and along axes."""
    size = math.prod(sizes)
    step = channels if channels_last else 1
    along = [step * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return (channels * size, 1 if channels_last else size, *along)


def _are_packed(
    channels: int, sizes: Sequence[int], strides: Sequence[int], channels_last: bool
) -> bool:
    expected = packed_strides(channels, sizes, channels_last)
    return all(
        stride == packed or size == 1
        for size, stride, packed in zip(
            (0, channels, *sizes), strides, expected, strict=True
        )
    )
