"""The ``cache_index`` primitive: precomputes index expressions into buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import Var
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.objects.write.prim_expr import PrimExprWriter
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import accesses, edit, legality, tree
from relax_mlir.tvm.tir.schedule.buffers import buffer_object
from relax_mlir.tvm.tir.schedule.cache import alloc_typed
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.new_axes import iter_symbol, iter_symbols
from relax_mlir.tvm.tir.schedule.reindex import insertion_point_beside, make_loops_over
from relax_mlir.tvm.tir.schedule.state import ScheduleState

__all__ = ["cache_index"]


def cache_index(
    state: ScheduleState, block: ir.Operation, memory: str, threshold: int
) -> list[ir.Operation]:
    """Precompute index expressions; see :meth:`Schedule.cache_index`."""
    where = "cache_index"
    legality.check_not_root(block, where)
    legality.check_outside_init([block], where)
    legality.check_iter_mins(block, where, may_be_above_0=True)
    accesses.check_storage_scope(memory, where)
    found = _repeated_indices(block, threshold)
    if not found:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected an index expression that is computed "
            f"{max(threshold, 1)} times or more, got only iter vars and constants"
        )
    with state.change(block) as indices:
        known = iter_symbols(block, indices)
        made: list[ir.Operation] = []
        with insertion_point_beside(block, is_read=True):
            for number, dim in enumerate(found):
                iter_numbers = _iters_used(block, dim)
                buffer = _allocate_index_buffer(
                    block, iter_numbers, number, memory, indices
                )
                made.append(
                    _create_index_block(
                        block, dim, iter_numbers, number, buffer, indices
                    )
                )
                _redirect(block, dim, iter_numbers, buffer, known, indices)
        edit.rematerialize_all(tree.function_of(block))
        return made


def _repeated_indices(block: ir.Operation, threshold: int) -> list[Dim]:
    """The index expressions of loads that repeat, in terms of iter vars, by first use."""
    indices = IndexSymbols()
    known = iter_symbols(block, indices)
    counts: dict[Dim, int] = {}
    for access in accesses.accesses_in(block):
        if access.is_write or access.is_opaque:
            continue
        for dim in access.indices(indices):
            value = substitute(dim, known)
            if _is_computed(value, block):
                counts[value] = counts.get(value, 0) + 1
    return [dim for dim, count in counts.items() if count >= threshold]


def _is_computed(dim: Dim, block: ir.Operation) -> bool:
    """Whether an index is a nontrivial expression of only iter vars."""
    names = set(symbols_of(dim))
    axes = {iter_symbol(n) for n in range(len(tree.iter_kinds(block)))}
    return bool(names) and names <= axes and str(dim) not in names


def _iters_used(block: ir.Operation, dim: Dim) -> list[int]:
    count = len(tree.iter_kinds(block))
    return [n for n in range(count) if iter_symbol(n) in symbols_of(dim)]


def _allocate_index_buffer(
    block: ir.Operation,
    iter_numbers: Sequence[int],
    number: int,
    memory: str,
    indices: IndexSymbols,
) -> ir.Value:
    axes = iter_vars_of(block, indices)
    element = ir.IntegerType.get_signless(32)
    attributes = {attribute_names.BUFFER: to_attribute({"strides": ["1"]})}
    shape = [axes[n].start + axes[n].extent for n in iter_numbers]
    name = f"index_var_{number}"
    scope = tree.scope_of(block)
    return alloc_typed(scope, shape, element, name, memory, attributes, indices)


def _create_index_block(
    block: ir.Operation,
    dim: Dim,
    iter_numbers: Sequence[int],
    number: int,
    buffer: ir.Value,
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates the block that computes an index expression over its iter vars."""
    axes = [iter_vars_of(block, indices)[n] for n in iter_numbers]
    variables, insertion_point = make_loops_over(axes, indices)
    new = [replace(a, kind="S", name=f"v{n}") for n, a in enumerate(axes)]
    with insertion_point:
        made = edit.make_block(f"index_{number}", new, variables, indices.emit)
    inner = edit.create_region(made, 1)
    bindings: dict[str, Dim] = {
        iter_symbol(n): indices.of(a)
        for n, a in zip(iter_numbers, inner.arguments, strict=True)
    }
    with edit.insertion_point_before(edit.terminator(inner)):
        writer, index = PrimExprWriter(), Var("index", "int32")
        writer.define(index, indices.emit(substitute(dim, bindings)))
        value = writer.value(index)
        operands = [value, buffer, *inner.arguments]
        ir.Operation.create("memref.store", operands=operands)
    return made


def _redirect(
    block: ir.Operation,
    dim: Dim,
    iter_numbers: Sequence[int],
    buffer: ir.Value,
    known: dict[str, Dim],
    indices: IndexSymbols,
) -> None:
    """Replace an index expression in loads of the block by a load of its cached value."""
    for access in accesses.accesses_in(block):
        if access.is_write or access.is_opaque or access.buffer == buffer:
            continue
        for operand_number, value in enumerate(access.index_values, start=1):
            if substitute(indices.of(value), known) != dim:
                continue
            region = tree.region_containing(block, access.op)
            with edit.insertion_point_before(access.op):
                writer = PrimExprWriter()
                iter_vars = [Var(f"v{n}", "int32") for n in iter_numbers]
                for var, number in zip(iter_vars, iter_numbers, strict=True):
                    writer.define(var, region.arguments[number])
                load = BufferLoad(buffer_object(writer, buffer), iter_vars)
                access.op.operands[operand_number] = writer.index(load)
