"""The primitive that computes indices ahead, and keeps them in buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir import ir

from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.prim import Var
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.tir.schedule import accesses, edit, legality, tree
from relax_mlir.tir.schedule.buffers import buffer_term
from relax_mlir.tir.schedule.cache import alloc_typed
from relax_mlir.tir.schedule.decompose import axes_of
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.new_axes import axis_symbol, axis_symbols
from relax_mlir.tir.schedule.reindex import beside, loops_over
from relax_mlir.tir.schedule.state import ScheduleState

__all__ = ["cache_index"]


def cache_index(
    state: ScheduleState, block: ir.Operation, memory: str, threshold: int
) -> list[ir.Operation]:
    """Compute indices ahead; see :meth:`Schedule.cache_index`."""
    where = "cache_index"
    legality.check_not_root(block, where)
    legality.check_outside_init([block], where)
    legality.check_axis_starts(block, where, may_be_above_0=True)
    accesses.check_storage_scope(memory, where)
    found = _repeated(block, threshold)
    if not found:
        raise ScheduleError(
            f"{where}: {tree.describe(block)}: expected an index that is computed "
            f"{max(threshold, 1)} times or more, got axes and numbers alone"
        )
    with state.change(block) as indices:
        known = axis_symbols(block, indices)
        made: list[ir.Operation] = []
        with beside(block, is_read=True):
            for number, dim in enumerate(found):
                numbers = _numbers(block, dim)
                buffer = _buffer(block, numbers, number, memory, indices)
                made.append(_block(block, dim, numbers, number, buffer, indices))
                _redirect(block, dim, numbers, buffer, known, indices)
        edit.localise(tree.function_of(block))
        return made


def _repeated(block: ir.Operation, threshold: int) -> list[Dim]:
    """The indices of loads that are computed, in terms of axes, by first mention."""
    indices = Indices()
    known = axis_symbols(block, indices)
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
    """Whether an index is more than an axis, and made of axes alone."""
    names = set(symbols_of(dim))
    axes = {axis_symbol(n) for n in range(len(tree.kinds_of(block)))}
    return bool(names) and names <= axes and str(dim) not in names


def _numbers(block: ir.Operation, dim: Dim) -> list[int]:
    count = len(tree.kinds_of(block))
    return [n for n in range(count) if axis_symbol(n) in symbols_of(dim)]


def _buffer(
    block: ir.Operation,
    numbers: Sequence[int],
    number: int,
    memory: str,
    indices: Indices,
) -> ir.Value:
    axes = axes_of(block, indices)
    element = ir.IntegerType.get_signless(32)
    said = {marks.BUFFER: to_attribute({"strides": ["1"]})}
    shape = [axes[n].start + axes[n].extent for n in numbers]
    name = f"index_var_{number}"
    scope = tree.scope_of(block)
    return alloc_typed(scope, shape, element, name, memory, said, indices)


def _block(
    block: ir.Operation,
    dim: Dim,
    numbers: Sequence[int],
    number: int,
    buffer: ir.Value,
    indices: Indices,
) -> ir.Operation:
    """A block that computes an index for all values of its axes."""
    axes = [axes_of(block, indices)[n] for n in numbers]
    variables, place = loops_over(axes, indices)
    new = [replace(a, kind="S", name=f"v{n}") for n, a in enumerate(axes)]
    with place:
        made = edit.make_block(f"index_{number}", new, variables, indices.emit)
    inner = edit.open_region(made, 1)
    points: dict[str, Dim] = {
        axis_symbol(n): indices.of(a)
        for n, a in zip(numbers, inner.arguments, strict=True)
    }
    with edit.point_before(edit.terminator(inner)):
        terms, index = TermWriter(), Var("index", "int32")
        terms.define(index, indices.emit(substitute(dim, points)))
        value = terms.value(index)
        operands = [value, buffer, *inner.arguments]
        ir.Operation.create("memref.store", operands=operands)
    return made


def _redirect(
    block: ir.Operation,
    dim: Dim,
    numbers: Sequence[int],
    buffer: ir.Value,
    known: dict[str, Dim],
    indices: Indices,
) -> None:
    """Let loads of the block use an index that was computed ahead."""
    for access in accesses.accesses_in(block):
        if access.is_write or access.is_opaque or access.buffer == buffer:
            continue
        for place, value in enumerate(access.index_values, start=1):
            if substitute(indices.of(value), known) != dim:
                continue
            region = tree.region_in(block, access.op)
            with edit.point_before(access.op):
                terms = TermWriter()
                points = [Var(f"v{n}", "int32") for n in numbers]
                for var, number in zip(points, numbers, strict=True):
                    terms.define(var, region.arguments[number])
                load = BufferLoad(buffer_term(terms, buffer), points)
                access.op.operands[place] = terms.index(load)
