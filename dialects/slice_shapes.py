"""Arithmetic of slices: how many elements one has, and where it begins."""

from relax_mlir.dialects.dims import Dim, Expr, ceildiv, maximum, minimum

__all__ = ["slice_begin", "sliced"]

# ONNX writes this, or more, for "to the end" of a size that it does not know.
_BEYOND = 2**31 - 1


def sliced(dim: Dim, start: Dim, stop: Dim, step: int) -> Dim:
    """The number of elements from ``start`` up to ``stop``, ``step`` apart.

    Negative bounds count from the end; then both are clamped. For a symbolic size,
    bounds of 2**31 - 1 and more are past any end, those of -2**31 + 1 and less before
    any beginning.

    Raises:
        ValueError: ``step`` is 0.

    Source: numpy's slices.
    """
    first, last = (slice_begin(dim, bound, step) for bound in (start, stop))
    distance = last - first if step > 0 else first - last
    return maximum(0, ceildiv(distance, abs(step)))


def slice_begin(dim: Dim, start: Dim, step: int) -> Dim:
    """The index of the first element of a slice; out of range where the slice is empty.

    Raises:
        ValueError: ``step`` is 0.
    """
    if step == 0:
        raise ValueError("slice step is wrong: expected any number but 0, got 0")
    least, end = (0, dim) if step > 0 else (-1, dim - 1)
    begin = _from_front(dim, start)
    return end if begin is None else minimum(maximum(begin, least), end)


def _from_front(dim: Dim, bound: Dim) -> Dim | None:
    """``bound`` counted from the front, not clamped; None: past the end."""
    if isinstance(bound, int) and isinstance(dim, Expr):
        if bound >= _BEYOND:
            return None
        if bound <= -_BEYOND:
            return -1
    if dim - bound in (1, 2):
        # Counted from the end, too, it is the first element wherever it is negative.
        return maximum(bound, 0)
    is_negative = maximum(minimum(-bound, 1), 0)  # as a number
    return bound + dim * is_negative
