"""Matmul, batched matmul and dense (fully connected) layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.objects.prim import Var, intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.broadcast import add
from relax_mlir.tvm.topi.sizes import as_int, is_one, same_size

__all__ = ["batch_matmul", "dense", "matmul"]

_TRANSPOSITIONS = {
    (True, True): "TT",
    (True, False): "TN",
    (False, True): "NT",
    (False, False): "NN",
}


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Matmul with broadcasting batch dimensions and an optional bias.

    Raises:
        ValueError: the shapes do not match.
    """
    if tensor_a.ndim < 2 or tensor_b.ndim < 2:
        raise ValueError("matmul: expected matrices, got a vector")
    dtype = out_dtype or tensor_a.dtype
    rows, inner = _maybe_swapped(tensor_a.shape[-2:], transpose_a)
    other, columns = _maybe_swapped(tensor_b.shape[-2:], transpose_b)
    if None not in (as_int(inner), as_int(other)) and not same_size(inner, other):
        raise ValueError(f"matmul: expected equal inner sizes, got {inner} and {other}")
    batch = _broadcast_batch(tensor_a.shape[:-2], tensor_b.shape[:-2])
    k = te.reduce_axis((0, inner), name="k")

    def element(*indices: Any) -> Any:
        i, j = indices[-2:]
        left = tensor_a(
            *_batch_indices(tensor_a, indices), *_maybe_swapped((i, k.var), transpose_a)
        )
        right = tensor_b(
            *_batch_indices(tensor_b, indices), *_maybe_swapped((k.var, j), transpose_b)
        )
        return te.sum(left.astype(dtype) * right.astype(dtype), axis=k)

    result = te.compute(
        (*batch, rows, columns),
        element,
        name=f"T_matmul_{_TRANSPOSITIONS[bool(transpose_a), bool(transpose_b)]}",
        tag="matmul" if transpose_a or not transpose_b else "dense",
        attrs={"layout_free_placeholders": [tensor_b]},
    )
    return result if bias is None else add(result, _cast(bias, dtype))


def _cast(tensor: Tensor, dtype: str) -> Tensor:
    return tensor.astype(dtype)


def _maybe_swapped(pair: Sequence[Any], is_swapped: bool) -> tuple[Any, Any]:
    first, second = pair
    return (second, first) if is_swapped else (first, second)


def _broadcast_batch(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Broadcast batch dimensions of two operands."""
    rank = max(len(a), len(b))
    left = [*(1 for _ in range(rank - len(a))), *a]
    right = [*(1 for _ in range(rank - len(b))), *b]
    for x, y in zip(left, right, strict=True):
        known = None not in (as_int(x), as_int(y)) and not is_one(x) and not is_one(y)
        if known and not same_size(x, y):
            raise ValueError(
                f"matmul: batches {list(a)} and {list(b)} do not broadcast"
            )
    return [y if is_one(x) else x for x, y in zip(left, right, strict=True)]


def _batch_indices(tensor: Tensor, indices: Sequence[PrimExprLike]) -> list[Any]:
    """Batch indices into an operand; 0 along dimensions that broadcast."""
    batch = indices[len(indices) - tensor.ndim : -2]
    pairs = zip(batch, tensor.shape[:-2], strict=True)
    return [0 if is_one(size) else index for index, size in pairs]


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Dense layer: ``data @ weight.T``, plus an optional bias."""
    return matmul(data, weight, bias, out_dtype, False, True)


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Sequence[Any] | None = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Batched matmul; the right operand is transposed by default.

    Raises:
        ValueError: the shapes do not match.
    """
    if tensor_a.ndim != 3 or tensor_b.ndim != 3:
        raise ValueError("batch_matmul: expected two tensors of 3 dimensions")
    dtype = out_dtype or tensor_a.dtype
    rows, inner = _maybe_swapped(tensor_a.shape[-2:], transpose_a)
    other, columns = _maybe_swapped(tensor_b.shape[-2:], transpose_b)
    if as_int(other) is not None and not same_size(inner, other):
        raise ValueError(f"batch_matmul: inner sizes {inner} and {other} differ")
    k = te.reduce_axis((0, inner), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        at_a, at_b = (0 if is_one(t.shape[0]) else b for t in (tensor_a, tensor_b))
        left = tensor_a(at_a, *_maybe_swapped((i, k.var), transpose_a))
        right = tensor_b(at_b, *_maybe_swapped((k.var, j), transpose_b))
        return te.sum(left.astype(dtype) * right.astype(dtype), axis=k)

    return te.compute(
        oshape or (_common_batch(tensor_a.shape[0], tensor_b.shape[0]), rows, columns),
        element,
        name=f"T_batch_matmul_{_TRANSPOSITIONS[bool(transpose_a), bool(transpose_b)]}",
        tag="batch_matmul",
        attrs={"layout_free_placeholders": [tensor_b]},
    )


def _common_batch(a: Any, b: Any) -> Any:
    if isinstance(a, Var) or isinstance(b, Var):
        return a if same_size(a, b) else Var("batch", "int32")
    if not (same_size(a, b) or is_one(a) or is_one(b)):
        raise ValueError(f"batch_matmul: batch sizes {a} and {b} do not broadcast")
    return intrinsics.max(a, b)
