"""Convolution descriptors: sizes, strides and padding as plain numbers, without addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

__all__ = ["ConvolutionShape", "memory_extent", "packed_strides"]

_RANKS = range(1, 4)
_LIMIT = 1 << 31  # exclusive, of each number: int32 in libraries


@dataclass(frozen=True)
class ConvolutionShape:
    """The geometry of a convolution, for any batch size.

    Filter ``k`` of group ``g`` computes, for each window, the sum over its channels of image
    elements times weights. The first window begins ``pads`` elements before the image,
    consecutive ones are ``steps`` apart; padding on both sides is 0.

    Attributes:
        channels: of an image; filters: output channels; groups: of both, independent of
            each other.
        image, window, result: spatial sizes of input, kernel and output; one to three.
        steps, dilations: strides of windows, and between elements of a window.
        pads: symmetric zero padding of the image.
        image_strides, result_strides: strides in elements, of batch, channels and spatial
            axes.
        channels_last: whether the weights are [filters, window, channels of a group] in
            memory, dense; otherwise [filters, channels of a group, window].
    """

    channels: int
    filters: int
    groups: int
    image: tuple[int, ...]
    window: tuple[int, ...]
    result: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    image_strides: tuple[int, ...]
    result_strides: tuple[int, ...]
    channels_last: bool

    def fields(self) -> list[Any]:  # Any: JSON values
        """The fields as a JSON list."""
        parts = astuple(self)
        return [list(part) if isinstance(part, tuple) else part for part in parts]

    @staticmethod
    def from_fields(fields: Sequence[Any]) -> ConvolutionShape:  # Any: as above
        """The inverse of :meth:`fields`, without validation."""
        parts: list[Any] = [
            tuple(part) if isinstance(part, list) else part for part in fields
        ]
        return ConvolutionShape(*parts)

    def check(self) -> None:
        """Validates the geometry.

        Raises:
            ValueError: it is inconsistent.
        """
        rank = _rank_of(self.image)
        axes = self._axes
        strides = (self.image_strides, self.result_strides)
        fits = rank in _RANKS and all(_are_numbers(axis, rank, 1) for axis in axes)
        fits = fits and _are_numbers(self.pads, rank, 0)
        fits = fits and all(_are_numbers(numbers, rank + 2, 1) for numbers in strides)
        counts = (self.channels, self.filters, self.groups)
        fits = fits and _are_numbers(counts, 3, 1) and type(self.channels_last) is bool
        if not fits:
            raise ValueError(f"invalid convolution: {self.fields()}")
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"groups: expected a divisor of {self.channels} channels and "
                f"{self.filters} filters, got {self.groups}"
            )
        if self.result != self.counts:
            raise ValueError(f"output size: expected {self.counts}, got {self.result}")
        tensors = (
            (self.channels, self.image, self.image_strides),
            (self.filters, self.result, self.result_strides),
        )
        if any(_overlap((_LIMIT, n, *sizes), steps) for n, sizes, steps in tensors):
            raise ValueError(
                f"strides: {self.image_strides} and {self.result_strides}: elements overlap"
            )

    @property
    def _axes(self) -> tuple[tuple[int, ...], ...]:
        sizes = (self.image, self.window, self.result)
        return (*sizes, self.steps, self.dilations)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of windows along each axis; negative if none fits."""
        spans = zip(
            *(self.image, self.window, self.steps, self.dilations, self.pads),
            strict=True,
        )
        return tuple(
            (size + 2 * pad - dilation * (taps - 1) - 1) // step + 1
            for size, taps, step, dilation, pad in spans
        )

    @property
    def terms(self) -> int:
        """The reduction size (K) of one output element."""
        return self.channels // self.groups * math.prod(self.window)

    @property
    def weight_elements(self) -> int:
        """The number of weights."""
        return self.filters * self.terms

    @property
    def weight_strides(self) -> tuple[int, ...]:
        """Strides of filters, channels and window axes, in elements."""
        channels = self.channels // self.groups
        return packed_strides(channels, self.window, self.channels_last)

    def is_packed(self, *, channels_last: bool) -> bool:
        """Whether images and outputs are dense in one of two layouts.

        Args:
            channels_last: [axes, channels], rather than [channels, axes].
        """
        return all(
            _are_packed(channels, sizes, strides, channels_last)
            for channels, sizes, strides in (
                (self.channels, self.image, self.image_strides),
                (self.filters, self.result, self.result_strides),
            )
        )

    def image_elements(self, batch: int) -> int:
        """The extent in memory of ``batch`` images, in elements."""
        sizes = (batch, self.channels, *self.image)
        return memory_extent(sizes, self.image_strides)

    def result_elements(self, batch: int) -> int:
        """The extent in memory of ``batch`` outputs, in elements."""
        sizes = (batch, self.filters, *self.result)
        return memory_extent(sizes, self.result_strides)


def _rank_of(sizes: object) -> int:
    return len(sizes) if isinstance(sizes, tuple) else 0


def _are_numbers(numbers: Any, count: int, least: int) -> bool:  # Any: from files
    return (
        isinstance(numbers, tuple)
        and len(numbers) == count
        and all(type(n) is int and least <= n < _LIMIT for n in numbers)
    )


def memory_extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """The extent of a strided tensor in memory, in elements."""
    steps = zip(sizes, strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)


def _overlap(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor may have the same address."""
    reach = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def packed_strides(
    channels: int, sizes: Sequence[int], channels_last: bool
) -> tuple[int, ...]:
    """Strides of a dense tensor: of batch, channels, and spatial axes."""
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
