"""Inclusive and exclusive scans: cumulative sum and product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var, const
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.statements import BufferStore, For, ForKind, Stmt, stmt_seq
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import prod, unravel_index
from relax_mlir.tvm.topi.transform import checked_axis

__all__ = ["cumprod", "cumsum", "scanop"]


def scanop(
    data: Tensor,
    binop: Callable[[Any, Any], Any],
    identity_value: Any,
    op_name: str,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Scan (prefix reduction) along an axis.

    Args:
        data: the tensor.
        binop: the associative operator.
        identity_value: identity element of ``binop``.
        op_name: name and tag of the result.
        axis: axis to scan; by default ``data`` is flattened.
        dtype: element type of the result; by default that of ``data``.
        exclusive: whether an element is excluded from its own prefix.
    """
    result_type = dtype or data.dtype
    if axis is None:
        before, length, after = 1, prod(data.shape), 1
        shape: tuple[Any, ...] = (length,)
    else:
        dim = checked_axis(axis, data.ndim, op_name)
        shape = data.shape
        length = shape[dim]
        before, after = _product(shape[:dim]), _product(shape[dim + 1 :])

    def body(source: Buffer, target: Buffer) -> Stmt:
        lane = Var("fused", length.dtype)
        start = lane // after * length * after + lane % after
        step = Var("k", length.dtype)
        index = start + (step + 1) * after
        last = start + (step + 1 - 1) * after
        first: PrimExpr = prim.cast(result_type, identity_value)
        if not exclusive:
            first = prim.cast(result_type, _load_flat(source, start))
        value = prim.cast(result_type, _load_flat(source, last if exclusive else index))
        combined = prim.convert(binop(_load_flat(target, last), value))
        inner = For(
            step, 0, length - 1, ForKind.SERIAL, _store_flat(target, index, combined)
        )
        steps = stmt_seq(_store_flat(target, start, first), inner)
        return For(lane, 0, prim.convert(before) * after, ForKind.PARALLEL, steps)

    return te.extern(
        [shape],
        [data],
        lambda ins, outs: body(ins[0], outs[0]),
        name=op_name,
        dtype=result_type,
        out_buffers=[decl_buffer(shape, result_type, "out_buf")],
        tag=op_name,
    )


def _product(sizes: tuple[Any, ...]) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def _load_flat(buffer: Buffer, flat_index: PrimExpr) -> PrimExpr:
    """Load the element at a row-major flat index."""
    return buffer[tuple(unravel_index(flat_index, buffer.shape))]


def _store_flat(buffer: Buffer, flat_index: PrimExpr, value: PrimExpr) -> Stmt:
    return BufferStore(buffer, value, unravel_index(flat_index, buffer.shape))


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Cumulative sum along an axis; see :func:`scanop`."""
    zero = const(0, dtype or data.dtype)
    return scanop(
        data, lambda a, b: a + b, zero, "cumsum_generic", axis, dtype, exclusive
    )


def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Cumulative product along an axis; see :func:`scanop`."""
    one = const(1, dtype or data.dtype)
    return scanop(
        data, lambda a, b: a * b, one, "cumprod_generic", axis, dtype, exclusive
    )
