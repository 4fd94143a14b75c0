"""Shape arithmetic of slices: size and first index."""

from relax_mlir.symbolic.dims import Dim, Expr, ceildiv, maximum, minimum

__all__ = ["slice_begin", "slice_size"]

# ONNX exporters write this or more as the end of a slice over an unknown size.
_BEYOND = 2**31 - 1


def slice_size(dim: Dim, start: Dim, stop: Dim, step: int) -> Dim:
    """The size of the slice ``start:stop:step`` of an axis of size ``dim``.

    Negative bounds count from the end; then both are clamped. For a symbolic size,
    bounds >= 2**31 - 1 are past the end and bounds <= -2**31 + 1 before the start.

    Raises:
        ValueError: ``step`` is 0.

    Source: numpy's slices.
    """
    first, last = (slice_begin(dim, bound, step) for bound in (start, stop))
    distance = last - first if step > 0 else first - last
    return maximum(0, ceildiv(distance, abs(step)))


def slice_begin(dim: Dim, start: Dim, step: int) -> Dim:
    """The index of the first element of a slice; may be out of range if it is empty.

    Raises:
        ValueError: ``step`` is 0.
    """
    if step == 0:
        raise ValueError("slice step is wrong: expected any number but 0, got 0")
    least, end = (0, dim) if step > 0 else (-1, dim - 1)
    begin = _from_front(dim, start)
    return end if begin is None else minimum(maximum(begin, least), end)


def _from_front(dim: Dim, bound: Dim) -> Dim | None:
    """``bound`` counted from the front, not clamped; None if it is past the end."""
    if isinstance(bound, int) and isinstance(dim, Expr):
        if bound >= _BEYOND:
            return None
        if bound <= -_BEYOND:
            return -1
    if dim - bound in (1, 2):
        # If it is negative, `dim` is 0 or 1, and it resolves to the first element.
        return maximum(bound, 0)
    is_negative = maximum(minimum(-bound, 1), 0)  # 1 or 0
    return bound + dim * is_negative
