"""Sliding windows over spatial axes, shared by convolution and pooling."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, ValueNotKnownError
from relax_mlir.dialects.relax.attribute_arguments import int_tuple
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Index

__all__ = [
    "SlidingWindow",
    "check_convolution",
    "check_window",
    "expand_padding",
    "expand_per_axis",
    "kernel_sizes",
    "kernel_taps",
    "onnx_window",
    "select_by_rank",
]

T = TypeVar("T")

_MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True)
class SlidingWindow:
    """The parameters of sliding windows, per spatial axis.

    Attributes:
        kernel: window sizes.
        strides: distance between adjacent windows.
        dilations: distance between adjacent elements of a window.
        before, after: implicit padding.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @staticmethod
    def of(
        kernel: Sequence[Dim],
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
    ) -> "SlidingWindow":
        """Builds a window from attributes; empty ones are 1s, and 0s for padding.

        Raises:
            ValueError: the lengths differ, the kernel is symbolic, or a number is out of
                range.
        """
        rank = len(kernel)
        known = tuple(size for size in kernel if isinstance(size, int))
        if len(known) != rank:
            raise ValueError(
                f"kernel sizes must be numbers, got {shapes.format_shape(kernel)}"
            )
        pads = tuple(pads) or (0,) * (2 * rank)
        window = SlidingWindow(
            known,
            tuple(strides) or (1,) * rank,
            tuple(dilations) or (1,) * rank,
            pads[:rank],
            pads[rank:],
        )
        lengths = [len(window.strides), len(window.dilations), len(pads) / 2]
        if any(length != rank for length in lengths):
            raise ValueError(
                f"strides, dilation and padding must be for {rank} axes, got "
                f"{list(strides)}, {list(dilations)} and {list(pads)}"
            )
        window.check_numbers()
        return window

    def check_numbers(self) -> None:
        """Checks the ranges of all parameters.

        Raises:
            ValueError: a kernel, stride or dilation is below 1, or a number is too large.
        """
        positive = (*self.kernel, *self.strides, *self.dilations)
        numbers = (*positive, *self.before, *self.after)
        if any(n < 1 for n in positive) or any(abs(n) > _MAX_NUMBER for n in numbers):
            raise ValueError(
                "expected kernel sizes, strides and dilations of 1 or more, and no number "
                f"beyond {_MAX_NUMBER}, got {list(numbers)}"
            )

    @property
    def is_padded(self) -> bool:
        """Whether there is any padding."""
        return any((*self.before, *self.after))

    def without_pads(self) -> "SlidingWindow":
        """The same windows over an explicitly padded input."""
        zeros = (0,) * len(self.kernel)
        return replace(self, before=zeros, after=zeros)

    def conv_sizes(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The number of windows per axis of an input of these spatial sizes."""
        return self.pool_sizes(sizes, ceil_mode=False)

    def pool_sizes(self, sizes: Sequence[Dim], *, ceil_mode: bool) -> tuple[Dim, ...]:
        """The number of windows per axis; see :func:`shapes.pool_output`."""
        return tuple(
            shapes.pool_output(
                size,
                self.kernel[axis],
                self.strides[axis],
                self.dilations[axis],
                self.before[axis],
                self.after[axis],
                ceil_mode,
            )
            for axis, size in enumerate(sizes)
        )

    def counts(
        self, sizes: Sequence[int], *, ceil_mode: bool = False
    ) -> tuple[int, ...]:
        """:meth:`pool_sizes` for static sizes."""
        found = self.pool_sizes(sizes, ceil_mode=ceil_mode)
        return tuple(shapes.evaluate(size, {}) for size in found)

    def positions(self, windows: Sequence[Index], taps: Sequence[Index]) -> list[Index]:
        """The spatial indices of the input for the given windows and taps."""
        return [
            Index(Index.value_of(window * stride + tap * dilation - before))
            for window, tap, stride, dilation, before in zip(
                windows,
                taps,
                self.strides,
                self.dilations,
                self.before,
                strict=True,
            )
        ]

    def crosses(self, axis: int, size: Dim, windows: Dim) -> bool:
        """Whether a window may extend beyond the unpadded input along ``axis``."""
        reach = self.dilations[axis] * (self.kernel[axis] - 1) - self.before[axis]
        last = (windows - 1) * self.strides[axis] + reach
        return self.before[axis] > 0 or not shapes.is_known_le(last + 1, size)


def select_by_rank(ops: Sequence[T], rank: int) -> T:
    """Selects the operator for ``rank`` spatial axes from those for 1, 2, 3.

    Raises:
        NotImplementedError: there is no operator for this rank.
    """
    if not 1 <= rank <= len(ops):
        raise NotImplementedError(f"{rank} spatial axes: expected 1 to {len(ops)}")
    return ops[rank - 1]


def expand_per_axis(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Expands a single number to one per spatial axis; sequences stay."""
    numbers = int_tuple(value) or ()
    return numbers * rank if len(numbers) == 1 else numbers


def expand_padding(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Expands padding to begins of all spatial axes, then ends of all.

    Args:
        value: one number for all, one per axis for both ends, or all of them.
        rank: number of spatial axes.
    """
    numbers = expand_per_axis(value, rank)
    return numbers * 2 if len(numbers) == rank else numbers


def kernel_taps(
    x: np.ndarray, window: SlidingWindow, windows: Sequence[int], fill: float
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yields every kernel tap and the strided view of x that all windows read there.

    Args:
        x: the input, [n, c, spatial...].
        window: the sliding window.
        windows: number of windows per spatial axis.
        fill: value of the padding.
    """
    padded = _padded(x, window, windows, fill)
    steps = list(zip(windows, window.strides, window.dilations, strict=True))
    for tap in np.ndindex(*window.kernel):
        where = tuple(
            slice(t * dilation, t * dilation + max(0, stride * (count - 1) + 1), stride)
            for t, (count, stride, dilation) in zip(tap, steps, strict=True)
        )
        yield tap, padded[(..., *where)]


def _padded(
    x: np.ndarray, window: SlidingWindow, windows: Sequence[int], fill: float
) -> np.ndarray:
    """``x`` padded and cropped to the range from the first to the last window."""
    begins, ends = [0, 0], [0, 0]
    for axis, size in enumerate(x.shape[2:]):
        reach = window.dilations[axis] * (window.kernel[axis] - 1) + 1
        end = (windows[axis] - 1) * window.strides[axis] + reach
        begins.append(window.before[axis])
        ends.append(end - window.before[axis] - size)
    pads = [(max(0, b), max(0, e)) for b, e in zip(begins, ends, strict=True)]
    cropped = tuple(slice(max(0, -b), None) for b in begins)
    return np.pad(x, pads, constant_values=fill)[cropped]


def check_window(node: OnnxNode, rank: int) -> None:
    """Checks the lengths of the window attributes of an ONNX node.

    Raises:
        ValueError: a length does not match the spatial rank, or a pad is negative.
    """
    if min(node.attrs.get("pads") or [0]) < 0:
        got = list(node.attrs["pads"])
        raise ValueError(f"attribute `pads`: expected 0 or more, got {got}")
    counts = {"strides": rank, "dilations": rank, "pads": 2 * rank}
    for name, count in (counts | {"output_padding": rank}).items():
        given = node.attrs.get(name)
        if given is not None and len(given) not in (0, count):
            raise ValueError(
                f"attribute `{name}`: expected {count} numbers for {rank} spatial axes, "
                f"got {list(given)}"
            )


def check_convolution(node: OnnxNode) -> None:
    """Checks the groups of an ONNX convolution, and that it has one kind of padding.

    Raises:
        ValueError: ``group`` is below 1, or both ``pads`` and ``auto_pad`` are given.

    Source: ONNX Conv-22, where ``pads`` and ``auto_pad`` exclude each other. Pooling nodes
    of real models have both; there ``auto_pad`` takes precedence, as in onnxruntime.
    """
    group = node.attr("group", 1)
    if group < 1:
        raise ValueError(f"attribute `group`: expected 1 or more, got {group}")
    mode = node.attr("auto_pad", "NOTSET")
    if mode != "NOTSET" and node.attrs.get("pads"):
        raise ValueError(f"expected one of `pads` and `auto_pad`, got both, {mode}")


def kernel_sizes(node: OnnxNode, weight: ir.Value, index: int = 1) -> tuple[Dim, ...]:
    """The spatial sizes of a convolution's weight, checked against ``kernel_shape``.

    Args:
        node: the convolution.
        weight: the weight, [o, i, spatial...].
        index: input number of the weight.

    Raises:
        ValueError: ``kernel_shape`` differs, or the weight has no spatial axes.
        NotKnownError: spatial sizes, or the channels of a grouped convolution, are
            symbolic.
    """
    shape = tensors.shape_of(weight)
    if len(shape) < 3:
        got = shapes.format_shape(shape)
        raise ValueError(f"input {index}: expected rank 3 or more, got {got}")
    kernel = shape[2:]
    given = node.attrs.get("kernel_shape")
    channels = shape[:2] if node.attr("group", 1) != 1 else ()
    if not all(isinstance(dim, int) for dim in (*channels, *(given or kernel))):
        raise ValueNotKnownError(
            index,
            f"is a kernel: expected known sizes, got {shapes.format_shape(shape)}",
            needs_shape_only=True,
        )
    if given is None:
        return kernel
    if len(given) != len(kernel) or any(map(shapes.is_known_unequal, kernel, given)):
        raise ValueError(
            f"attribute `kernel_shape`: expected the sizes of the weight, "
            f"{shapes.format_shape(kernel)}, got {shapes.format_shape(given)}"
        )
    return tuple(map(shapes.unify, kernel, given))


def onnx_window(
    node: OnnxNode, x: ir.Value, kernel: Sequence[Dim], fill: float | None = None
) -> tuple[ir.Value, dict[str, Any]]:  # Any: attributes by name
    """The input and the attributes strides, padding and dilation of an ONNX window node.

    ``auto_pad`` is resolved. Symbolic padding, which attributes cannot express, is applied
    to the input by a pad operator.

    Args:
        node: a convolution or pooling node.
        x: its input, [n, c, spatial...].
        kernel: the spatial sizes of the kernel.
        fill: value of explicit padding; None if the input must not be padded.

    Raises:
        ValueError: ``auto_pad`` is unknown, or the rank does not match the kernel.
        NotKnownError: ``auto_pad`` depends on a symbolic size, and ``fill`` is None.
    """
    rank = len(kernel)
    check_window(node, rank)
    ones = [1] * rank
    strides = node.attr("strides", ones)
    dilations = node.attr("dilations", ones)
    attrs = {"strides": strides, "dilation": dilations}
    mode = node.attr("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return x, {**attrs, "padding": node.attr("pads", [0] * (2 * rank))}
    sizes = tensors.shape_of(x)[2:]
    if len(sizes) != rank:
        raise ValueError(
            f"input 0: expected rank {rank + 2} for {rank} spatial axes, got "
            f"{shapes.format_shape(tensors.shape_of(x))}"
        )
    pairs = [
        shapes.auto_pad(*axis, mode)
        for axis in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    pads = [before for before, _ in pairs] + [after for _, after in pairs]
    if all(isinstance(pad, int) for pad in pads):
        return x, {**attrs, "padding": pads}
    if fill is None:
        raise ValueNotKnownError(
            0,
            f"is padded by `auto_pad`: expected known sizes, got "
            f"{shapes.format_shape(sizes)}",
            needs_shape_only=True,
        )
    whole = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
    padded = PadOp(x, pad_width=pad_widths(whole), pad_value=fill).y
    return padded, {**attrs, "padding": [0] * (2 * rank)}
