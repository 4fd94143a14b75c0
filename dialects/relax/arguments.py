"""What callers may write for an attribute, and what is stored."""

from collections.abc import Sequence

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import DType

__all__ = ["element_type", "int_tuple"]


def int_tuple(value: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """One number as a tuple of one; None stays."""
    if value is None:
        return None
    listed = value if isinstance(value, Sequence) else (value,)
    try:
        return tuple(map(int, listed))
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"expected one or more whole numbers, got {value!r}") from None


def element_type(value: DType | str | None) -> DType | None:
    """An element type by its name; None, and no name, stand for one that is inferred."""
    if value is None or value in ("", "void"):
        return None
    return dtypes.dtype(value) if isinstance(value, str) else value
