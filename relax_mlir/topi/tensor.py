"""Tensors with given values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.objects import functions, prim
from relax_mlir.objects.prim.terms import Term
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import elements
from relax_mlir.topi.tag import ELEMWISE

__all__ = ["elemwise_sum", "eye", "full", "full_like"]


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape.

    Raises:
        ValueError: there is none.
    """
    if len(xs) == 0:
        raise ValueError("elemwise_sum: expected at least one tensor")

    def element(indices: tuple[Any, ...]) -> Any:
        total: Any = xs[0](*indices)
        for x in xs[1:]:
            total = total + x(*indices)
        return total

    return elements(xs[0].shape, element, "T_elemwise_sum", ELEMWISE)


def full(shape: Sequence[Term], dtype: str, fill_value: Any) -> Tensor:
    """A tensor of one value, which may be that of a tensor of rank 0.

    Raises:
        ValueError: the value is infinite or no number, and the type has none such.
    """
    is_number = isinstance(fill_value, (int, float))
    if is_number and not math.isfinite(fill_value) and "float" not in dtype:
        raise ValueError(f"full: {fill_value} needs a floating-point type, got {dtype}")
    value = fill_value() if isinstance(fill_value, Tensor) else fill_value
    filled = prim.cast(dtype, value)
    return elements(shape, lambda i: filled, "T_full", ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of one value, of the shape and type of another."""
    value = prim.cast(x.dtype, fill_value)
    return elements(x.shape, lambda i: value, "T_full_like", ELEMWISE)


def eye(n: Term, m: Term | None = None, k: Term = 0, dtype: str = "float32") -> Tensor:
    """A matrix of ones on one diagonal, and zeros elsewhere."""
    return te.compute(
        (n, n if m is None else m),
        lambda i, j: functions.if_then_else(
            i.equal(j - k), te.const(1, dtype), te.const(0, dtype)
        ),
        name="eye",
    )
