"""The ``transform_layout`` primitive."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.write.prim_expr import PrimExprWriter
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import accesses, buffers, edit, tree
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.indices import (
    IndexSymbols,
    Limits,
    substitute_and_simplify,
)
from relax_mlir.tvm.tir.schedule.layout_padding import Layout, plan_padding
from relax_mlir.tvm.tir.schedule.state import ScheduleState, limits_at

__all__ = ["emit_mapped_indices", "size_symbols", "transform_layout"]

_WHERE = "transform_layout"


def size_symbols(op: ir.Operation, index_map: IndexMap) -> Symbols:
    """The symbolic sizes of a PrimFunc, to which an index map may refer by name."""
    indices = IndexSymbols()
    indices.add_size_symbols(tree.function_of(op))
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
    """Apply an index map to a buffer; see :meth:`Schedule.transform_layout`."""
    check_no_opaque_access(buffer, _WHERE)
    symbols = size_symbols(block, index_map)
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
        made = buffers.replace_buffer_type(state, buffer, indices, shape=new_shape)
        for use in list(made.uses):
            rewrite_access(use.owner.operation, made, index_map, symbols)
        if plan is not None:
            plan.fill(state, made, symbols, indices)


def check_no_opaque_access(buffer: ir.Value, where: str) -> None:
    """Reject buffers with aliases or opaque accesses.

    Raises:
        ScheduleError: it has one.
    """
    plain = ("memref.load", "memref.store")
    owner = buffer.owner
    is_view = not isinstance(owner, ir.Block) and owner.name == "memref.subview"
    if is_view or any(use.owner.name not in plain for use in buffer.uses):
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
            f"dimensions: expected a map of {len(shape)} indices, got {short_repr(index_map)}"
        )
    try:
        return index_map.map_symbolic_shape(shape, symbols)
    except ValueError as error:
        raise ScheduleError(f"{_WHERE}: {error}") from error


def _inverse(
    buffer: ir.Value, shape: Sequence[Dim], index_map: IndexMap, symbols: Symbols
) -> tuple[IndexMap, prim.PrimExpr]:
    sizes = [symbols.expr(d) for d in shape]
    try:
        return index_map.non_surjective_inverse(sizes)
    except ValueError as error:
        raise ScheduleError(
            f"{_WHERE}: buffer `{accesses.buffer_name(buffer)}`: {error}. Hint: "
            "`assume_injective_transform=True` if no two elements map to the same index"
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
    """Apply an index map to the indices of a load or a store."""
    is_write = op.name == "memref.store"
    old = list(op.operands)[2 if is_write else 1 :]
    with edit.insertion_point_before(op):
        mapped_indices = emit_mapped_indices(old, index_map, symbols, op)
        if is_write:
            operands = [op.operands[0], buffer, *mapped_indices]
            ir.Operation.create("memref.store", operands=operands)
            patterns.erase(op)
        else:
            value = emit("memref.load", op.results[0].type, buffer, *mapped_indices)
            patterns.replace(op, value)


def emit_mapped_indices(
    values: Sequence[ir.Value], index_map: IndexMap, symbols: Symbols, op: ir.Operation
) -> list[ir.Value]:
    """Emits mapped indices at the insertion point.

    Args:
        op: the operation from which value ranges of variables are taken.
    """
    indices = IndexSymbols()
    indices.add_size_symbols(tree.function_of(op))
    limits = limits_at(indices, tree.parent_of(op))
    found = map_expressions(list(map(indices.of, values)), index_map, symbols, limits)
    if found is not None:
        return list(map(indices.emit, found))
    writer = PrimExprWriter()
    for var, value in zip(index_map.initial_indices, values, strict=True):
        writer.define(var, value)
    return [writer.index(term) for term in index_map.final_indices]


def map_expressions(
    values: Sequence[Dim], index_map: IndexMap, symbols: Symbols, limits: Limits
) -> list[Dim] | None:
    """Applies a map to index expressions; None if it is not built of sums and quotients."""
    try:
        names, final = index_map.dims(symbols)
    except ValueError:
        return None
    known = dict(zip(names, values, strict=True))
    return [substitute_and_simplify(f, known, limits) for f in final]
