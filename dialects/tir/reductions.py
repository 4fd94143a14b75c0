"""Named reductions: identity element and combiner."""

from collections.abc import Callable, Mapping

from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.tir.scalars import Scalar

__all__ = ["REDUCTIONS", "finite_identity"]

REDUCTIONS: Mapping[str, tuple[float, Callable[[Scalar, Scalar], Scalar]]] = {
    "add": (0.0, lambda a, x: a + x),
    "mul": (1.0, lambda a, x: a * x),
    "max": (-float("inf"), lambda a, x: a.maximum(x)),
    "min": (float("inf"), lambda a, x: a.minimum(x)),
    "or": (0.0, lambda a, x: a | x),
}
"""Identity element and combiner by name; :func:`finite_identity` replaces infinities."""


def finite_identity(start: float, dtype: DType) -> float:
    """The identity element in ``dtype``: infinities become the limits of integer types."""
    if dtype.is_float or start in (0.0, 1.0):
        return start
    if dtype.kind in "ub":
        return 0 if start < 0 else (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)) if start < 0 else (1 << (dtype.bits - 1)) - 1
