"""The primitive that lays out a buffer differently."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError, shown
from relax_mlir.objects import prim
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.tir.schedule import accesses, buffers, edit, tree
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.indices import Indices, Limits, replaced
from relax_mlir.tir.schedule.layout_padding import Layout, plan_padding
from relax_mlir.tir.schedule.state import ScheduleState, limits_at

__all__ = ["mapped_values", "program_symbols", "transform_layout"]

_WHERE = "transform_layout"


def program_symbols(op: ir.Operation, index_map: IndexMap) -> Symbols:
    """The names of a program's sizes, some of which a map may mention."""
    indices = Indices()
    indices.add_sizes(tree.function_of(op))
    made = Symbols()
    for name in indices.values:
        made.var(name)
    mentioned = [t for f in index_map.final_indices for t in prim.post_order(f)]
    for term in mentioned:
        if isinstance(term, prim.Var) and term not in index_map.initial_indices:
            made.alias(term, term.name)
    return made


def transform_layout(
    state: ScheduleState,
    block: ir.Operation,
    buffer: ir.Value,
    index_map: IndexMap,
    pad_value: IndexMap | None,
    *,
    assume_injective: bool = False,
) -> None:
    """Lay out a buffer differently; see :meth:`Schedule.transform_layout`."""
    check_plain(buffer, _WHERE)
    symbols = program_symbols(block, index_map)
    shape = accesses.buffer_shape(buffer)
    new_shape = _new_shape(buffer, shape, index_map, symbols)
    inverse, padding = None, prim.const(False)
    if not assume_injective:
        inverse, padding = _inverse(buffer, shape, index_map, symbols)
    is_padded = not isinstance(padding, prim.IntImm)
    if is_padded and pad_value is None:
        raise ScheduleError(
            f"{_WHERE}: the transformation {index_map!r} of buffer "
            f"`{accesses.buffer_name(buffer)}` of shape {_text(shape)} would introduce "
            f"padding wherever {padding} is true; the new shape is {_text(new_shape)}. "
            "Hint: give a `pad_value`"
        )
    _check_pad_value(buffer, pad_value)
    plan = None
    if is_padded and inverse is not None and pad_value is not None:
        layout = Layout(new_shape, inverse, padding, pad_value, symbols)
        plan = plan_padding(tree.scope_of(block), buffer, layout)
    with state.change(block) as indices:
        made = buffers.retyped(state, buffer, indices, shape=new_shape)
        for use in list(made.uses):
            rewrite_access(use.owner.operation, made, index_map, symbols)
        if plan is not None:
            plan.fill(state, made, symbols, indices)


def check_plain(buffer: ir.Value, where: str) -> None:
    """Refuse buffers that are parts of others, or of which there are parts.

    Raises:
        ScheduleError: it is one.
    """
    plain = ("memref.load", "memref.store")
    owner = buffer.owner
    is_part = not isinstance(owner, ir.Block) and owner.name == "memref.subview"
    if is_part or any(use.owner.name not in plain for use in buffer.uses):
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is used by its address or "
            "through `match_buffer`: expected plain reads and writes of its elements"
        )


def _text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, shape))})"


def _new_shape(
    buffer: ir.Value, shape: Sequence[Dim], index_map: IndexMap, symbols: Symbols
) -> list[Dim]:
    if len(index_map.initial_indices) != len(shape):
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}` has {len(shape)} "
            f"dimensions: expected a map of as many indices, got {shown(index_map)}"
        )
    try:
        return index_map.shape_dims(shape, symbols)
    except ValueError as error:
        raise ScheduleError(f"{_WHERE}: {error}") from error


def _inverse(
    buffer: ir.Value, shape: Sequence[Dim], index_map: IndexMap, symbols: Symbols
) -> tuple[IndexMap, prim.PrimExpr]:
    sizes = [symbols.term(d) for d in shape]
    try:
        return index_map.non_surjective_inverse(sizes)
    except ValueError as error:
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}`: {error}. Hint: "
            "`assume_injective_transform=True` if no two elements come to lie on one"
        ) from error


def _check_pad_value(buffer: ir.Value, pad_value: IndexMap | None) -> None:
    if pad_value is None:
        return
    (value,) = pad_value.final_indices
    dtype = buffers.element_dtype(buffer)
    if value.dtype != dtype:
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}` has elements of type "
            f"{dtype}, but the padding is {pad_value!r}, of type {value.dtype}"
        )


def rewrite_access(
    op: ir.Operation, buffer: ir.Value, index_map: IndexMap, symbols: Symbols
) -> None:
    """Let a load or a store of a buffer use the new indices."""
    is_write = op.name == "memref.store"
    old = list(op.operands)[2 if is_write else 1 :]
    with edit.point_before(op):
        place = mapped_values(old, index_map, symbols, op)
        if is_write:
            operands = [op.operands[0], buffer, *place]
            ir.Operation.create("memref.store", operands=operands)
            rewriting.erase(op)
        else:
            value = emit("memref.load", op.results[0].type, buffer, *place)
            rewriting.replace(op, value)


def mapped_values(
    values: Sequence[ir.Value], index_map: IndexMap, symbols: Symbols, op: ir.Operation
) -> list[ir.Value]:
    """The indices that a map gives for some, at the insertion point.

    Args:
        op: what the limits of variables are known from.
    """
    indices = Indices()
    indices.add_sizes(tree.function_of(op))
    limits = limits_at(indices, tree.parent_of(op))
    found = mapped(list(map(indices.of, values)), index_map, symbols, limits)
    if found is not None:
        return list(map(indices.emit, found))
    terms = TermWriter()
    for var, value in zip(index_map.initial_indices, values, strict=True):
        terms.define(var, value)
    return [terms.index(term) for term in index_map.final_indices]


def mapped(
    values: Sequence[Dim], index_map: IndexMap, symbols: Symbols, limits: Limits
) -> list[Dim] | None:
    """The indices that a map gives for some; None if those are no sums and quotients."""
    try:
        names, final = index_map.dims(symbols)
    except ValueError:
        return None
    known = dict(zip(names, values, strict=True))
    return [replaced(f, known, limits) for f in final]
