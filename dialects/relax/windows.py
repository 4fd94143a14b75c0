"""Sliding windows over spatial axes: what convolutions and poolings share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.hooks import NotKnownError, OnnxNode
from relax_mlir.dialects.relax.arguments import int_tuple
from relax_mlir.dialects.relax.padding import PadOp, pad_widths
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Index

__all__ = [
    "Window",
    "by_rank",
    "check_convolution",
    "check_window",
    "kernel_sizes",
    "onnx_window",
    "padding_of",
    "per_axis",
    "taps",
]

T = TypeVar("T")

_MAX_NUMBER = 2**31 - 1


@dataclass(frozen=True)
class Window:
    """Where the windows lie, per spatial axis.

    Attributes:
        kernel: elements of one window; strides: from one window to the next;
        dilations: from one element to the next.
        before, after: elements of padding.
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
    ) -> "Window":
        """From an operator's attributes; an empty one stands for 1s, or 0s of padding.

        Raises:
            ValueError: one has another length than the rest, or the kernel is symbolic.
        """
        rank = len(kernel)
        known = tuple(size for size in kernel if isinstance(size, int))
        if len(known) != rank:
            raise ValueError(
                f"kernel sizes must be numbers, got {shapes.format_shape(kernel)}"
            )
        pads = tuple(pads) or (0,) * (2 * rank)
        window = Window(
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
        """Refuse what no window can have.

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
        """Whether windows may reach into padding."""
        return any((*self.before, *self.after))

    def without_pads(self) -> "Window":
        """The same windows over an input that is padded already."""
        zeros = (0,) * len(self.kernel)
        return replace(self, before=zeros, after=zeros)

    def conv_sizes(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The number of windows in an input of these spatial sizes."""
        return self.pool_sizes(sizes, ceil_mode=False)

    def pool_sizes(self, sizes: Sequence[Dim], *, ceil_mode: bool) -> tuple[Dim, ...]:
        """The number of windows; with ``ceil_mode`` the last may overhang the end."""
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
        """:meth:`pool_sizes` of an array."""
        found = self.pool_sizes(sizes, ceil_mode=ceil_mode)
        return tuple(shapes.evaluate(size, {}) for size in found)

    def positions(self, windows: Sequence[Index], taps: Sequence[Index]) -> list[Index]:
        """The elements of the input that these windows read at these taps."""
        return [
            Index(Index.value_of(window * stride + tap * dilation - before))
            for window, tap, stride, dilation, before in zip(
                windows, taps, self.strides, self.dilations, self.before, strict=True
            )
        ]

    def crosses(self, axis: int, size: Dim, windows: Dim) -> bool:
        """Whether some window may reach outside the input along ``axis``."""
        reach = self.dilations[axis] * (self.kernel[axis] - 1) - self.before[axis]
        last = (windows - 1) * self.strides[axis] + reach
        return self.before[axis] > 0 or not shapes.is_known_le(last + 1, size)


def by_rank(ops: Sequence[T], rank: int) -> T:
    """The operator for this many spatial axes, of those for 1, 2, 3.

    Raises:
        NotImplementedError: there is none.
    """
    if not 1 <= rank <= len(ops):
        raise NotImplementedError(f"{rank} spatial axes: expected 1 to {len(ops)}")
    return ops[rank - 1]


def per_axis(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number for every spatial axis, where one number may stand for all."""
    numbers = int_tuple(value) or ()
    return numbers * rank if len(numbers) == 1 else numbers


def padding_of(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Padding before every spatial axis, then after it.

    Args:
        value: one number for all, one for both ends of every axis, or all of them.
        rank: how many spatial axes there are.
    """
    numbers = per_axis(value, rank)
    return numbers * 2 if len(numbers) == rank else numbers


def taps(
    x: np.ndarray, window: Window, windows: Sequence[int], fill: float
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """For every element of the kernel, what all windows read there.

    Args:
        x: [n, c, spatial...]; windows: how many there are along each spatial axis.
        fill: what stands outside x.
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
    x: np.ndarray, window: Window, windows: Sequence[int], fill: float
) -> np.ndarray:
    """``x`` from the start of the first window to the end of the last."""
    begins, ends = [0, 0], [0, 0]
    for axis, size in enumerate(x.shape[2:]):
        reach = window.dilations[axis] * (window.kernel[axis] - 1) + 1
        end = (windows[axis] - 1) * window.strides[axis] + reach
        begins.append(window.before[axis])
        ends.append(end - window.before[axis] - size)
    grown = [(max(0, b), max(0, e)) for b, e in zip(begins, ends, strict=True)]
    cut = tuple(slice(max(0, -b), None) for b in begins)
    return np.pad(x, grown, constant_values=fill)[cut]


def check_window(node: OnnxNode, rank: int) -> None:
    """Check that the attributes of a node's windows are for so many spatial axes.

    Raises:
        ValueError: one has another number of elements, or there are negative pads.
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
    """Check that the groups of a convolution are one or more, and its pads said once.

    Raises:
        ValueError: they are not.

    Source: ONNX Conv-22, where ``pads`` and ``auto_pad`` exclude each other. Models have
    poolings with both, of which ``auto_pad`` counts, as in onnxruntime.
    """
    group = node.attr("group", 1)
    if group < 1:
        raise ValueError(f"attribute `group`: expected 1 or more, got {group}")
    mode = node.attr("auto_pad", "NOTSET")
    if mode != "NOTSET" and node.attrs.get("pads"):
        raise ValueError(f"expected one of `pads` and `auto_pad`, got both, {mode}")


def kernel_sizes(node: OnnxNode, weight: ir.Value, index: int = 1) -> tuple[Dim, ...]:
    """The spatial sizes of a convolution's weight, which ``kernel_shape`` has to agree with.

    Args:
        weight: of output channels, input channels, spatial axes.
        index: of the input that it comes from.

    Raises:
        ValueError: the attribute says something else, or there are no spatial axes.
        NotKnownError: they are open, or channels of groups are.
    """
    shape = tensors.shape_of(weight)
    if len(shape) < 3:
        got = shapes.format_shape(shape)
        raise ValueError(f"input {index}: expected rank 3 or more, got {got}")
    kernel = shape[2:]
    said = node.attrs.get("kernel_shape")
    needed = shape[:2] if node.attr("group", 1) != 1 else ()
    if not all(isinstance(dim, int) for dim in (*needed, *(said or kernel))):
        raise NotKnownError(
            index,
            f"is a kernel: expected known sizes, got {shapes.format_shape(shape)}",
            is_of_sizes=True,
        )
    if said is None:
        return kernel
    if len(said) != len(kernel) or any(map(shapes.is_known_unequal, kernel, said)):
        raise ValueError(
            f"attribute `kernel_shape`: expected the sizes of the weight, "
            f"{shapes.format_shape(kernel)}, got {shapes.format_shape(said)}"
        )
    return tuple(map(shapes.unify, kernel, said))


def onnx_window(
    node: OnnxNode, x: ir.Value, kernel: Sequence[Dim], fill: float | None = None
) -> tuple[ir.Value, dict[str, Any]]:  # Any: attributes by name
    """The input, and the attributes strides, padding and dilation, of a node with windows.

    ``auto_pad`` is resolved. Padding that depends on a symbolic size is added to the
    input, for want of a number.

    Args:
        fill: what such padding holds; None where it cannot be added beforehand.

    Raises:
        ValueError: ``auto_pad`` is unknown, or the rank does not fit the kernel.
        NotKnownError: ``auto_pad`` depends on a symbolic size, and there is no ``fill``.
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
        raise NotKnownError(
            0,
            f"is padded by `auto_pad`: expected known sizes, got "
            f"{shapes.format_shape(sizes)}",
            is_of_sizes=True,
        )
    whole = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
    padded = PadOp(x, pad_width=pad_widths(whole), pad_value=fill).y
    return padded, {**attrs, "padding": [0] * (2 * rank)}
