"""Scatter operators: ``scatter_elements``, ``scatter_nd`` and ``index_put``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.dialects.relax.index_tensor import IndexPutOp
from relax_mlir.errors import UnsupportedArgumentError
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var, intrinsics
from relax_mlir.objects.prim.terms import PrimExprLike
from relax_mlir.objects.stmt.buffer import Buffer, decl_buffer
from relax_mlir.objects.stmt.statements import (
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_seq,
)
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.indexing import is_in_range, wrapped_index
from relax_mlir.tvm.topi.operators import apply_operator
from relax_mlir.tvm.topi.sizes import as_int, get_const_int, unravel_index
from relax_mlir.tvm.topi.tag import INJECTIVE
from relax_mlir.tvm.topi.transform import checked_axis

__all__ = ["index_put", "scatter_elements", "scatter_nd"]

Reduction = Callable[[Any, Any], Any]

_REDUCTIONS: Mapping[str, Reduction] = {
    "update": lambda old, value_buffer: value_buffer,
    "add": lambda old, value_buffer: old + value_buffer,
    "mul": lambda old, value_buffer: old * value_buffer,
    "mean": lambda old, value_buffer: intrinsics.div(old + value_buffer, 2),
    "min": intrinsics.min,
    "max": intrinsics.max,
}


def _reduction(name: str, known: tuple[str, ...]) -> Reduction:
    if name not in known:
        raise UnsupportedArgumentError(
            f"scatter: expected one of {', '.join(known)} as reduction, got `{name}`"
        )
    return _REDUCTIONS[name]


def _product(sizes: Any) -> PrimExpr:
    total: Any = 1
    for size in sizes:
        total = total * size
    return prim.convert(total)


def _unravel(buffer: Buffer, flat_index: PrimExprLike) -> list[Any]:
    return unravel_index(flat_index, buffer.shape)


def _load_flat(buffer: Buffer, flat_index: PrimExprLike) -> PrimExpr:
    return buffer[tuple(_unravel(buffer, flat_index))]


def _copy_stmt(source: Buffer, target: Buffer, kind: ForKind) -> Stmt:
    """Copy of a buffer, as one flat loop."""
    count = _product(source.shape)
    i = Var("i", count.dtype)
    store = BufferStore(target, _load_flat(source, i), _unravel(target, i))
    return For(i, 0, count, kind, store)


def _sequence_stmt(*statements: Stmt) -> Stmt:
    """Sequence of statements with the ``pragma_scope`` that TOPI puts around it."""
    return AttrStmt(prim.convert(0), "pragma_scope", "seq", stmt_seq(*statements))


def _predicated(
    indices: Sequence[Any], sizes: Sequence[PrimExprLike], store: Stmt
) -> Stmt:
    """A store predicated on all wrapped indices being in range."""
    ranges = list(map(is_in_range, indices, sizes))
    return IfThenElse(te.all(*ranges), store) if ranges else store


def _extern_scatter(
    data: Tensor, inputs: list[Tensor], body: Callable[..., Stmt], name: str
) -> Tensor:
    return te.extern(
        [data.shape],
        [data, *inputs],
        lambda ins, outs: body(*ins, *outs),
        name=name,
        dtype=data.dtype,
        out_buffers=[decl_buffer(data.shape, data.dtype, "out_buf")],
        tag=name,
    )


def scatter_elements(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    axis: int = 0,
    reduction: str = "update",
) -> Tensor:
    """Scatter ``updates`` into a copy of ``data`` at indices along an axis.

    Negative indices count from the end; updates at indices out of range are dropped.

    Raises:
        NotImplementedError: unknown reduction.
    """
    dim = checked_axis(axis, data.ndim, "scatter_elements")
    combine = _reduction(reduction, ("update", "add", "mul", "mean", "min", "max"))
    size, inner_size = data.shape[dim], _product(data.shape[dim + 1 :])
    index_shape = indices.shape
    before, length, after = (
        _product(index_shape[:dim]),
        index_shape[dim],
        _product(index_shape[dim + 1 :]),
    )

    def body(
        source: Buffer, index_buffer: Buffer, value_buffer: Buffer, target: Buffer
    ) -> Stmt:
        count = before * after
        lane, k = Var("fused", count.dtype), Var("k", length.dtype)
        i, j = lane // after, lane % after
        source_index = i * (length * after) + j + k * after
        index = wrapped_index(_load_flat(index_buffer, source_index), size)
        target_index = i * (size * inner_size) + j + index * inner_size
        value = combine(
            _load_flat(target, target_index), _load_flat(value_buffer, source_index)
        )
        store = BufferStore(target, prim.convert(value), _unravel(target, target_index))
        store = _predicated([index], [size], store)
        steps = For(k, 0, length, ForKind.SERIAL, store)
        lanes = For(lane, 0, count, ForKind.PARALLEL, steps)
        return _sequence_stmt(_copy_stmt(source, target, ForKind.PARALLEL), lanes)

    return _extern_scatter(data, [indices, updates], body, "scatter_elements.generic")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """Scatter ``updates`` into a copy of ``data`` at multi-indices, the index columns.

    Negative indices count from the end; updates at indices out of range are dropped.

    Raises:
        NotImplementedError: unknown mode.
        ValueError: the shapes do not match, or the indices are not integers.
    """
    combine = _reduction(mode, ("update", "add", "mul", "mean", "min", "max"))
    depth = get_const_int(indices.shape[0])
    _check_shapes(data, indices, updates, depth)
    count = _product(indices.shape[1:])
    length = _product(updates.shape[indices.ndim - 1 :])

    def body(
        source: Buffer, index_buffer: Buffer, value_buffer: Buffer, target: Buffer
    ) -> Stmt:
        i, j = Var("i", count.dtype), Var("j", length.dtype)
        offset: Any = length
        target_index: Any = j
        sizes = data.shape[:depth]
        indices = [
            wrapped_index(_load_flat(index_buffer, i + axis * count), size)
            for axis, size in enumerate(sizes)
        ]
        for index, size in reversed(list(zip(indices, sizes, strict=True))):
            target_index = target_index + offset * index
            offset = offset * size
        value = combine(
            _load_flat(target, target_index), _load_flat(value_buffer, i * length + j)
        )
        store = BufferStore(target, prim.convert(value), _unravel(target, target_index))
        store = _predicated(indices, sizes, store)
        rows = For(j, 0, length, ForKind.PARALLEL, store)
        columns = For(i, 0, count, ForKind.SERIAL, rows)
        return _sequence_stmt(_copy_stmt(source, target, ForKind.SERIAL), columns)

    return _extern_scatter(data, [indices, updates], body, "scatter_nd.generic")


def _check_shapes(data: Tensor, indices: Tensor, updates: Tensor, depth: int) -> None:
    if not indices.dtype.startswith(("int", "uint")):
        raise ValueError(
            f"scatter_nd: expected integers as indices, got {indices.dtype}"
        )
    if depth > data.ndim:
        raise ValueError(
            f"scatter_nd: expected at most {data.ndim} indices, got {depth}"
        )
    expected = (*indices.shape[1:], *data.shape[depth:])
    pairs = zip(expected, updates.shape, strict=False)
    differ = any(
        None not in (as_int(a), as_int(b)) and as_int(a) != as_int(b) for a, b in pairs
    )
    if len(expected) != updates.ndim or differ:
        raise ValueError(
            f"scatter_nd: expected updates of shape {list(expected)}, got "
            f"{list(updates.shape)}"
        )


def index_put(
    data: Tensor,
    indices: Tensor | Sequence[Tensor],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """Store ``values`` into a copy of ``data`` at broadcast index tensors.

    Negative indices count from the end; values at indices out of range are dropped.
    Stores are sequential: of duplicate indices, the last one wins.

    Args:
        data: the tensor that is copied.
        indices: one index tensor per axis of ``data``; their shapes broadcast.
        values: the values, broadcast to the shape of the indices.
        accumulate: whether values are added to the elements, in sequence.

    Raises:
        ValueError: the number of index tensors is not the rank, or they do not broadcast.
    """
    listed = [indices] if isinstance(indices, Tensor) else list(indices)
    if len(listed) != data.ndim:
        raise ValueError(
            f"index_put: expected {data.ndim} index tensors, got {len(listed)}"
        )
    return apply_operator(
        IndexPutOp, data, listed, values, tag=INJECTIVE, accumulate=accumulate
    )
