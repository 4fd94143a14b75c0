"""Matching of sliding-window reductions per channel: pooling and depthwise convolution."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.schedules.epilogue import ElementwiseStatement, match_epilogue
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.padding import Padding, split_padding
from relax_mlir.schedules.rule import NotApplicable, check_one_output, check_statements

__all__ = ["MAX_TAPS", "PoolingPlan", "plan_pooling"]

MAX_TAPS = 64  # per window, which is fully unrolled


@dataclass(frozen=True)
class PoolingPlan:
    """A kernel matched as a pooling or a depthwise convolution in NHWC.

    Attributes:
        anchor: the reduction; maps: elementwise statements of the epilogue.
        outer: batch and row axes; column: the column axis; channel: the channel axis.
        taps: axes of the window; padding: implicit padding of an input, if any.
    """

    anchor: Statement
    maps: tuple[ElementwiseStatement, ...]
    outer: tuple[int, ...]
    column: int
    channel: int
    taps: tuple[int, ...]
    padding: Padding | None


def plan_pooling(kernel: Kernel) -> PoolingPlan:
    """Match a kernel as a sliding-window reduction.

    Raises:
        NotApplicable: it does not match.
    """
    check_statements(kernel)
    padding, statements = split_padding(kernel)
    if not statements:
        raise NotApplicable("it only pads")
    anchor, *rest = statements
    _check_small_reduction(anchor)
    (out,) = anchor.outputs
    axes = [form.single_variable for form in out.forms if form.coefficients]
    spatial = [axis for axis in axes if axis is not None]
    if len(spatial) != anchor.kinds.count("S") or len(spatial) < 2:
        raise NotApplicable(
            "its result is not indexed by two or more parallel axes, each once"
        )
    *outer, column, channel = spatial
    taps = [i for i, kind in enumerate(anchor.kinds) if kind == "R"]
    are_vectors = out.stride_of(channel) == 1 and all(
        access.stride_of(channel) in (0, 1) for access in anchor.inputs
    )
    slides = any(_slides(access, column, taps) for access in anchor.inputs)
    if not are_vectors:
        raise NotApplicable(
            "its channels, the last axis of the result, are not contiguous"
        )
    if not slides:
        raise NotApplicable("it has no window that slides along the last axis but one")
    if not all(map(_is_strided, anchor.accesses)):
        raise NotApplicable("an operand has an index map without constant strides")
    maps = match_epilogue(anchor, (channel,), rest, kernel)
    return PoolingPlan(
        anchor, maps, tuple(outer), column, channel, tuple(taps), padding
    )


def _check_small_reduction(statement: Statement) -> None:
    """Check that a statement reduces 2 to `MAX_TAPS` elements, known from its operands."""
    if not statement.is_reduction or statement.start is None:
        raise NotApplicable("its first statement is not a reduction from a constant")
    if statement.depends_on_indices:
        raise NotApplicable("its reduction depends on indices")
    check_one_output(statement)
    pairs = zip(statement.kinds, statement.extents, strict=True)
    counts = [extent for kind, extent in pairs if kind == "R"]
    known = [count for count in counts if isinstance(count, int)]
    if len(known) != len(counts):
        raise NotApplicable("its window has a dynamic size")
    if not 1 < math.prod(known) <= MAX_TAPS:
        raise NotApplicable(
            f"its window has {math.prod(known)} taps, not 2 to {MAX_TAPS}"
        )


def _slides(access: Access, column: int, taps: Sequence[int]) -> bool:
    """Whether a window of an operand slides along the columns."""
    return access.stride_of(column) not in (0, None) and bool(access.axes & set(taps))


def _is_strided(access: Access) -> bool:
    """Whether an access has a constant stride along each of its axes."""
    return all(access.stride_of(axis) is not None for axis in access.axes)
