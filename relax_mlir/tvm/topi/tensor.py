"""Tensor creation, and sums of several tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import compute_tensor
from relax_mlir.tvm.topi.tag import ELEMWISE

__all__ = ["elemwise_sum", "eye", "full", "full_like"]


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """Elementwise sum of tensors of one shape.

    Raises:
        ValueError: the list is empty.
    """
    if len(xs) == 0:
        raise ValueError("elemwise_sum: expected at least one tensor")

    def element(indices: tuple[Any, ...]) -> Any:
        total: Any = xs[0](*indices)
        for x in xs[1:]:
            total = total + x(*indices)
        return total

    return compute_tensor(xs[0].shape, element, "T_elemwise_sum", ELEMWISE)


def full(shape: Sequence[PrimExprLike], dtype: str, fill_value: Any) -> Tensor:
    """Tensor filled with one value: a scalar, or a tensor of rank 0.

    Raises:
        ValueError: the value is infinite or NaN, and the type is not floating-point.
    """
    is_number = isinstance(fill_value, (int, float))
    if is_number and not math.isfinite(fill_value) and "float" not in dtype:
        raise ValueError(f"full: {fill_value} needs a floating-point type, got {dtype}")
    value = fill_value() if isinstance(fill_value, Tensor) else fill_value
    filled = prim.cast(dtype, value)
    return compute_tensor(shape, lambda i: filled, "T_full", ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """Tensor filled with one value, with the shape and type of another tensor."""
    value = prim.cast(x.dtype, fill_value)
    return compute_tensor(x.shape, lambda i: value, "T_full_like", ELEMWISE)


def eye(
    n: PrimExprLike,
    m: PrimExprLike | None = None,
    k: PrimExprLike = 0,
    dtype: str = "float32",
) -> Tensor:
    """Matrix with ones on the ``k``-th diagonal and zeros elsewhere."""
    return te.compute(
        (n, n if m is None else m),
        lambda i, j: intrinsics.if_then_else(
            i.equal(j - k), te.const(1, dtype), te.const(0, dtype)
        ),
        name="eye",
    )
