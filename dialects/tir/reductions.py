"""Reductions by name: where they start, and how they combine."""

from collections.abc import Callable, Mapping

from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.tir.scalars import Scalar

__all__ = ["REDUCTIONS", "finite"]

REDUCTIONS: Mapping[str, tuple[float, Callable[[Scalar, Scalar], Scalar]]] = {
    "add": (0.0, lambda a, x: a + x),
    "mul": (1.0, lambda a, x: a * x),
    "max": (-float("inf"), lambda a, x: a.maximum(x)),
    "min": (float("inf"), lambda a, x: a.minimum(x)),
    "or": (0.0, lambda a, x: a | x),
}
"""Start value and combination of each; infinities become the limits of types."""


def finite(start: float, dtype: DType) -> float:
    """The start value of a reduction in a type that has no infinities."""
    if dtype.is_float or start in (0.0, 1.0):
        return start
    if dtype.kind in "ub":
        return 0 if start < 0 else (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)) if start < 0 else (1 << (dtype.bits - 1)) - 1
