"""Which kernels are sums over windows of neighbours, each channel by itself."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.schedules.epilogue import Map, maps_after
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import Refusal, check_one_output, check_statements

__all__ = ["MOST_TAPS", "WindowsPlan", "plan_windows"]

MOST_TAPS = 64  # of a window, which are written out


@dataclass(frozen=True)
class WindowsPlan:
    """How a kernel is a sum over windows.

    Attributes:
        anchor: the statement that sums; maps: what follows.
        outer: axes before the rows of pictures; column: along a row; channel: the last.
        taps: the axes of a window; padding: of what it reads, if it is padded.
    """

    anchor: Statement
    maps: tuple[Map, ...]
    outer: tuple[int, ...]
    column: int
    channel: int
    taps: tuple[int, ...]
    padding: Padding | None


def plan_windows(kernel: Kernel) -> WindowsPlan:
    """The plan of a kernel.

    Raises:
        Refusal: it is no sum over windows.
    """
    check_statements(kernel)
    padding, statements = split_padding(kernel)
    if not statements:
        raise Refusal("it does nothing but pad")
    anchor, *rest = statements
    _check_small_sum(anchor)
    (out,) = anchor.outputs
    axes = [form.single_axis for form in out.forms if form.coefficients]
    spatial = [axis for axis in axes if axis is not None]
    if len(spatial) != anchor.kinds.count("S") or len(spatial) < 2:
        raise Refusal(
            "its result is not indexed by two spatial axes or more, each once"
        )
    *outer, column, channel = spatial
    taps = [i for i, kind in enumerate(anchor.kinds) if kind == "R"]
    are_vectors = out.stride_of(channel) == 1 and all(
        access.stride_of(channel) in (0, 1) for access in anchor.inputs
    )
    slides = any(_slides(access, column, taps) for access in anchor.inputs)
    if not are_vectors:
        raise Refusal("its channels, the last axis of the result, are not side by side")
    if not slides:
        raise Refusal("it has no window that moves along the last axis but one")
    if not all(map(_is_plain, anchor.accesses)):
        raise Refusal("an operand is read at places that are no sums of axes")
    maps = maps_after(anchor, (channel,), rest, kernel)
    return WindowsPlan(
        anchor, maps, tuple(outer), column, channel, tuple(taps), padding
    )


def _check_small_sum(statement: Statement) -> None:
    """Refuse what does not combine a few points, which its body reads in place."""
    if not statement.is_reduction or statement.start is None:
        raise Refusal("its first statement is no sum that starts from a constant")
    if statement.looks_at_points:
        raise Refusal("what it sums depends on where it is")
    check_one_output(statement)
    pairs = zip(statement.kinds, statement.extents, strict=True)
    counts = [extent for kind, extent in pairs if kind == "R"]
    known = [count for count in counts if isinstance(count, int)]
    if len(known) != len(counts):
        raise Refusal("it sums a number of terms that is not known")
    if not 1 < math.prod(known) <= MOST_TAPS:
        raise Refusal(f"its sums have {math.prod(known)} terms, not 2 to {MOST_TAPS}")


def _slides(access: Access, column: int, taps: Sequence[int]) -> bool:
    """Whether a window of an operand moves along the row."""
    return access.stride_of(column) not in (0, None) and bool(access.axes & set(taps))


def _is_plain(access: Access) -> bool:
    """Whether its places along all axes are known sums."""
    return all(access.stride_of(axis) is not None for axis in access.axes)
