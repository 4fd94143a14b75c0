"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir import te
from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, decl_buffer
from relax_mlir.objects.prim import PrimExpr, Var, const
from relax_mlir.objects.stmt import BufferStore, For, ForKind, Stmt, stmt_seq
from relax_mlir.te import Tensor
from relax_mlir.topi.sizes import prod, unravel_index
from relax_mlir.topi.transform import checked_axis

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
    """Every element combined with all before it along an axis.

    Args:
        data: the tensor.
        binop: what combines two elements.
        identity_value: what changes nothing when it is combined.
        op_name: of the result.
        axis: to go along; by default ``data`` is taken for flat.
        dtype: of the result; by default that of ``data``.
        exclusive: whether an element itself is left out.
    """
    made_of = dtype or data.dtype
    if axis is None:
        before, length, after = 1, prod(data.shape), 1
        shape: tuple[Any, ...] = (length,)
    else:
        place = checked_axis(axis, data.ndim, op_name)
        shape = data.shape
        length = shape[place]
        before, after = _product(shape[:place]), _product(shape[place + 1 :])

    def body(source: Buffer, target: Buffer) -> Stmt:
        lane = Var("fused", length.dtype)
        start = lane // after * length * after + lane % after
        step = Var("k", length.dtype)
        index = start + (step + 1) * after
        last = start + (step + 1 - 1) * after
        first: PrimExpr = prim.cast(made_of, identity_value)
        if not exclusive:
            first = prim.cast(made_of, _at(source, start))
        value = prim.cast(made_of, _at(source, last if exclusive else index))
        combined = prim.convert(binop(_at(target, last), value))
        inner = For(
            step, 0, length - 1, ForKind.SERIAL, _store(target, index, combined)
        )
        steps = stmt_seq(_store(target, start, first), inner)
        return For(lane, 0, prim.convert(before) * after, ForKind.PARALLEL, steps)

    return te.extern(
        [shape],
        [data],
        lambda ins, outs: body(ins[0], outs[0]),
        name=op_name,
        dtype=made_of,
        out_buffers=[decl_buffer(shape, made_of, "out_buf")],
        tag=op_name,
    )


def _product(sizes: tuple[Any, ...]) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def _at(buffer: Buffer, number: PrimExpr) -> PrimExpr:
    """The element with a number in row-major order."""
    return buffer[tuple(unravel_index(number, buffer.shape))]


def _store(buffer: Buffer, number: PrimExpr, value: PrimExpr) -> Stmt:
    return BufferStore(buffer, value, unravel_index(number, buffer.shape))


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: str | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Running sums along an axis; see :func:`scanop`."""
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
    """Running products along an axis; see :func:`scanop`."""
    one = const(1, dtype or data.dtype)
    return scanop(
        data, lambda a, b: a * b, one, "cumprod_generic", axis, dtype, exclusive
    )
