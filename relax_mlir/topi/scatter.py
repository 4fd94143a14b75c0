"""Tensors with elements replaced at places that other tensors say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir import te
from relax_mlir.errors import UnsupportedArgumentError
from relax_mlir.objects import functions, prim
from relax_mlir.objects.buffer import Buffer, decl_buffer
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim.terms import Term, Terms
from relax_mlir.objects.stmt import (
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_seq,
)
from relax_mlir.te import Tensor
from relax_mlir.topi.indexing import is_in_range, wrapped_index
from relax_mlir.topi.sizes import (
    as_int,
    get_const_int,
    is_one,
    may_be_same,
    places_of,
    unravel_index,
)
from relax_mlir.topi.transform import checked_axis

__all__ = ["index_put", "scatter_elements", "scatter_nd"]

Reduction = Callable[[Any, Any], Any]

_REDUCTIONS: Mapping[str, Reduction] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: functions.div(old + new, 2),
    "min": functions.min,
    "max": functions.max,
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


def _flat(buffer: Buffer, number: Term) -> list[Any]:
    return unravel_index(number, buffer.shape)


def _at(buffer: Buffer, number: Term) -> PrimExpr:
    return buffer[tuple(_flat(buffer, number))]


def _copied(source: Buffer, target: Buffer, kind: ForKind) -> Stmt:
    """All elements of one buffer in another one."""
    count = _product(source.shape)
    i = Var("i", count.dtype)
    store = BufferStore(target, _at(source, i), _flat(target, i))
    return For(i, 0, count, kind, store)


def _in_sequence(*parts: Stmt) -> Stmt:
    """Statements that run one after another, marked as TOPI marks them."""
    return AttrStmt(prim.convert(0), "pragma_scope", "seq", stmt_seq(*parts))


def _guarded(places: Sequence[Any], sizes: Sequence[Term], store: Stmt) -> Stmt:
    """A store that happens where every wrapped index is in range."""
    ranges = list(map(is_in_range, places, sizes))
    return IfThenElse(te.all(*ranges), store) if ranges else store


def _scattered(
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
    """``data`` with ``updates`` at the places along an axis that ``indices`` says.

    Negative indices count from the end; an update whose index is out of range is dropped.

    Raises:
        NotImplementedError: there is no such reduction.
    """
    place = checked_axis(axis, data.ndim, "scatter_elements")
    combine = _reduction(reduction, ("update", "add", "mul", "mean", "min", "max"))
    size, behind = data.shape[place], _product(data.shape[place + 1 :])
    own = indices.shape
    before, length, after = (
        _product(own[:place]),
        own[place],
        _product(own[place + 1 :]),
    )

    def body(source: Buffer, where: Buffer, new: Buffer, target: Buffer) -> Stmt:
        count = before * after
        lane, k = Var("fused", count.dtype), Var("k", length.dtype)
        i, j = lane // after, lane % after
        from_ = i * (length * after) + j + k * after
        index = wrapped_index(_at(where, from_), size)
        to = i * (size * behind) + j + index * behind
        value = combine(_at(target, to), _at(new, from_))
        store = BufferStore(target, prim.convert(value), _flat(target, to))
        store = _guarded([index], [size], store)
        steps = For(k, 0, length, ForKind.SERIAL, store)
        lanes = For(lane, 0, count, ForKind.PARALLEL, steps)
        return _in_sequence(_copied(source, target, ForKind.PARALLEL), lanes)

    return _scattered(data, [indices, updates], body, "scatter_elements.generic")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """``data`` with ``updates`` at the places in the columns of ``indices``.

    Negative indices count from the end; an update with one out of range is dropped.

    Raises:
        NotImplementedError: there is no such mode.
        ValueError: shapes do not fit, or the indices are no integers.
    """
    combine = _reduction(mode, ("update", "add", "mul", "mean", "min", "max"))
    depth = get_const_int(indices.shape[0])
    _check_fits(data, indices, updates, depth)
    count = _product(indices.shape[1:])
    length = _product(updates.shape[indices.ndim - 1 :])

    def body(source: Buffer, where: Buffer, new: Buffer, target: Buffer) -> Stmt:
        i, j = Var("i", count.dtype), Var("j", length.dtype)
        offset: Any = length
        to: Any = j
        sizes = data.shape[:depth]
        indices = [
            wrapped_index(_at(where, i + axis * count), size)
            for axis, size in enumerate(sizes)
        ]
        for index, size in reversed(list(zip(indices, sizes, strict=True))):
            to = to + offset * index
            offset = offset * size
        value = combine(_at(target, to), _at(new, i * length + j))
        store = BufferStore(target, prim.convert(value), _flat(target, to))
        store = _guarded(indices, sizes, store)
        rows = For(j, 0, length, ForKind.PARALLEL, store)
        columns = For(i, 0, count, ForKind.SERIAL, rows)
        return _in_sequence(_copied(source, target, ForKind.SERIAL), columns)

    return _scattered(data, [indices, updates], body, "scatter_nd.generic")


def _check_fits(data: Tensor, indices: Tensor, updates: Tensor, depth: int) -> None:
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
    """``data`` with ``values`` at places of which every axis has a tensor of indices.

    Negative indices count from the end; a value with one out of range is dropped. Values
    are written one after another: the last one that names a place stays.

    Args:
        data: what is copied.
        indices: one for every axis of ``data``; they stretch to one shape.
        values: stretch to that shape.
        accumulate: whether values are added to what is there, one after another.

    Raises:
        ValueError: there are more or fewer indices than axes, or they do not stretch.
    """
    places = [indices] if isinstance(indices, Tensor) else list(indices)
    if len(places) != data.ndim:
        raise ValueError(
            f"index_put: expected {data.ndim} tensors of indices, got {len(places)}"
        )
    common = _stretched([place.shape for place in places])
    count = _product(common)

    def body(*buffers: Buffer) -> Stmt:
        source, *wheres, new, target = buffers
        k = Var("k", count.dtype)
        place = places_of(k, common)
        indices = [
            wrapped_index(_at(where, _within(where.shape, place)), size)
            for where, size in zip(wheres, data.shape, strict=True)
        ]
        value = _at(new, _within(new.shape, place))
        value = target[tuple(indices)] + value if accumulate else value
        store = BufferStore(target, value, indices)
        store = _guarded(indices, data.shape, store)
        lanes = For(k, 0, count, ForKind.SERIAL, store)
        return _in_sequence(_copied(source, target, ForKind.PARALLEL), lanes)

    return _scattered(data, [*places, values], body, "index_put.generic")


def _stretched(shapes: Sequence[Sequence[PrimExpr]]) -> list[Any]:
    """The shape that all shapes stretch to.

    Raises:
        ValueError: there is none.
    """
    rank = max(map(len, shapes))
    common: list[Any] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            if is_one(common[axis]):
                common[axis] = size
            elif not is_one(size) and not may_be_same(size, common[axis]):
                raise ValueError(f"index_put: {shapes} do not stretch to one shape")
    return common


def _within(shape: Sequence[PrimExpr], place: Sequence[Any]) -> PrimExpr:
    """The number of an element of a tensor that is stretched to where ``place`` is."""
    total: Any = prim.const(0, "int64")
    stride: Terms = 1
    for size, at in zip(reversed(shape), reversed(place), strict=False):
        total = total + (0 if is_one(size) else at) * stride
        stride = stride * size
    return total
