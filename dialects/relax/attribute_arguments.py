"""Normalisation of Python arguments of operators to attribute values."""

from collections.abc import Sequence

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.dtypes import DType

__all__ = ["element_type", "int_tuple"]


def int_tuple(value: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Converts an int or a sequence of ints to a tuple; None stays None."""
    if value is None:
        return None
    listed = value if isinstance(value, Sequence) else (value,)
    try:
        return tuple(map(int, listed))
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"expected one or more integers, got {value!r}") from None


def element_type(value: DType | str | None) -> DType | None:
    """Looks up an element type by name; None, ``""`` and ``void`` give None (inferred)."""
    if value is None or value in ("", "void"):
        return None
    return dtypes.dtype(value) if isinstance(value, str) else value
