"""The ``pad_einsum`` primitive: pads the iter domain of a contraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.contraction import is_product, load_of
from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import accesses, edit, legality, predicates, tree
from relax_mlir.tvm.tir.schedule.buffers import element_dtype
from relax_mlir.tvm.tir.schedule.cache import (
    alloc_buffer,
    index_dtype,
    load_compute_element,
    load_element,
    to_storage_type,
)
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.predicates import Condition
from relax_mlir.tvm.tir.schedule.reductions import match_reduction
from relax_mlir.tvm.tir.schedule.state import ScheduleState, iter_extents, loop_var
from relax_mlir.tvm.tir.schedule.whole_writes import is_conditional

__all__ = ["pad_einsum"]

_WHERE = "pad_einsum"


@dataclass(frozen=True)
class _Operand:
    """A buffer that an einsum block reads or writes.

    Attributes:
        buffer: the buffer.
        axes: the iter var of each index; None for the constant 0.
        is_write: whether it is written.
    """

    buffer: ir.Value
    axes: Sequence[int | None]
    is_write: bool


def pad_einsum(
    state: ScheduleState, block: ir.Operation, padding: Sequence[int]
) -> None:
    """Pad the iter domain of an einsum; see :meth:`Schedule.pad_einsum`."""
    legality.check_not_root(block, _WHERE)
    legality.check_outside_init([block], _WHERE)
    legality.check_iter_mins(block, _WHERE)
    scope = tree.scope_of(block)
    legality.check_stage_pipeline(scope, _WHERE)
    count = len(tree.iter_kinds(block))
    if len(padding) != count or any(p <= 0 for p in padding):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)}: expected {count} numbers above 0, got "
            f"{list(padding)}"
        )
    if tree.predicate_of(block) is not None:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} has a predicate")
    operands = _operands(block)
    _check_no_conflicts(tree.child_containing(scope, block), block, operands)
    with state.change(block) as indices:
        sizes = _padded_sizes(block, padding, indices)
        if sizes:
            legality.check_bindings_in_scope(block, _WHERE)
            _check_whole(block, operands, sizes, indices)
            _check_stored(scope, block, operands)
            _check_written(block, operands, sizes)
            _check_initialised(block, operands)
            _check_contraction(block, operands, sizes)
            _pad(scope, block, operands, sizes, indices)


def _operands(block: ir.Operation) -> list[_Operand]:
    """The buffers of a block, indexed by iter vars or 0; inputs first."""
    axes = list(tree.body(block).arguments)
    found: dict[ir.Value, _Operand] = {}
    for access in accesses.accesses_in(tree.body(block)):
        element_indices = access.index_values
        if access.is_opaque or any(
            v not in axes and constant_of(v) != 0 for v in element_indices
        ):
            raise _no_einsum(block)
        numbers = [axes.index(v) if v in axes else None for v in element_indices]
        known = found.get(access.buffer)
        if known is not None and list(known.axes) != numbers:
            raise _no_einsum(block)
        is_write = access.is_write or (known is not None and known.is_write)
        found[access.buffer] = _Operand(access.buffer, numbers, is_write)
    return sorted(found.values(), key=lambda o: o.is_write)


def _no_einsum(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected one access pattern for each buffer, "
        "whose indices are iter vars or 0"
    )


def _check_no_conflicts(
    statement: ir.Operation, block: ir.Operation, operands: Sequence[_Operand]
) -> None:
    """Reject blocks in the same loops that conflict with copies before and after the nest."""
    for other in tree.blocks_below(statement):
        accessed = [a.buffer for a in accesses.accesses_in(other)]
        written = accesses.buffers_written(other)
        if other != block and any(
            o.buffer in (accessed if o.is_write else written) for o in operands
        ):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)} and {tree.describe(other)} are in "
                "one loop, and one uses what the other writes: expected loops of its own"
            )


def _padded_sizes(
    block: ir.Operation, padding: Sequence[int], indices: IndexSymbols
) -> dict[int, Dim]:
    """The new extents of the padded iter vars."""
    loops = {
        loop_var(loop)
        for loop in tree.enclosing_loops(block)
        if tree.blocks_below(loop) == [block]
    }
    found: dict[int, Dim] = {}
    extents = iter_extents(indices, block)
    values = tree.bindings(block)
    for number, (extent, multiple) in enumerate(zip(extents, padding, strict=True)):
        padded = dims.ceildiv(extent, multiple) * multiple
        if padded == extent:
            continue
        if values[number] not in loops or values.count(values[number]) > 1:
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)}: axis "
                f"`{tree.iter_var_names(block)[number]}` is not bound to a loop of its own: "
                "expected a loop around only this block for a padded axis"
            )
        found[number] = padded
    return found


def _check_written(
    block: ir.Operation, operands: Sequence[_Operand], sizes: Mapping[int, Dim]
) -> None:
    """Reject padded instances that would write unpadded elements."""
    padded = [n for n in sizes if tree.iter_kinds(block)[n] == "S"]
    for operand in (o for o in operands if o.is_write):
        for number in padded:
            if number not in operand.axes:
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)}: axis "
                    f"`{tree.iter_var_names(block)[number]}` is not an index of "
                    f"`{accesses.buffer_name(operand.buffer)}`, which would be written "
                    "again: expected padded spatial axes as indices"
                )


def _check_whole(
    block: ir.Operation,
    operands: Sequence[_Operand],
    sizes: Mapping[int, Dim],
    indices: IndexSymbols,
) -> None:
    """Reject padded dimensions that do not extend over a whole buffer."""
    extents = iter_extents(indices, block)
    for operand in operands:
        shape = accesses.buffer_shape(operand.buffer)
        for number, size in zip(operand.axes, shape, strict=True):
            is_copied = operand.is_write or number in sizes
            if number is not None and is_copied and size != extents[number]:
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)}: axis "
                    f"`{tree.iter_var_names(block)[number]}` covers {extents[number]} of "
                    f"{size} elements of `{accesses.buffer_name(operand.buffer)}`: "
                    "expected all"
                )


def _check_stored(
    scope: ir.Operation, block: ir.Operation, operands: Sequence[_Operand]
) -> None:
    """Reject stores that leave earlier values of an output in place."""
    own = accesses.allocated_buffers(scope)
    found = accesses.accesses_in(tree.body(block))
    for operand in operands:
        if not operand.is_write or operand.buffer in own:
            continue
        pairs = zip(operand.axes, accesses.buffer_shape(operand.buffer), strict=True)
        index_iters = [axis for axis, size in pairs if axis is not None or size != 1]
        stores = [a for a in found if a.buffer == operand.buffer and a.is_write]
        if (
            None in index_iters
            or len(set(index_iters)) < len(index_iters)
            or all(is_conditional(a, block) for a in stores)
        ):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)} may leave out elements of "
                f"`{accesses.buffer_name(operand.buffer)}`: expected an unconditional "
                "store of each"
            )


def _check_initialised(block: ir.Operation, operands: Sequence[_Operand]) -> None:
    """Reject updates of earlier values, which a padded buffer lacks."""
    read = [a.buffer for a in accesses.accesses_in(block) if not a.is_write]
    updated = [o.buffer for o in operands if o.is_write and o.buffer in read]
    init = tree.init_block_of(block)
    if updated and init is None:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} reads `{accesses.buffer_name(updated[0])}`, "
            "which it writes, and has no init block (`T.init`): expected one"
        )
    used = [] if init is None else accesses.accesses_in(init)
    if any(not a.is_write for a in used):
        raise ScheduleError(
            f"{_WHERE}: the initial value of {tree.describe(block)} is read from a buffer: "
            "expected a constant"
        )


def _check_contraction(
    block: ir.Operation, operands: Sequence[_Operand], sizes: Mapping[int, Dim]
) -> None:
    """Reject padded reductions that are no contraction: zero padding must add 0."""
    kinds = tree.iter_kinds(block)
    padded_iters = {n for n in sizes if kinds[n] == "R"}
    if not padded_iters:
        return
    legality.check_reduction(block, _WHERE)
    reduction = match_reduction(block, _WHERE)
    for part in reduction.results:
        zero_padded = _iters_of_operands(part.new, operands)
        if (
            part.combiner.name not in ("arith.addf", "arith.addi")
            or padded_iters - zero_padded
        ):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)}: expected a sum of products with an "
                "operand indexed by each padded reduce axis"
            )


def _iters_of_operands(
    value: ir.Value, operands: Sequence[_Operand]
) -> set[int | None]:
    """The iter vars that index the operands of a product."""
    load, owner = load_of(value), value.owner
    if load is not None:
        (operand,) = [o for o in operands if o.buffer == load.operands[0]]
        return set(operand.axes)
    if isinstance(owner, ir.Block):
        return set()
    is_cast = owner.name.startswith(("arith.ext", "arith.sitofp", "arith.trunc"))
    if is_product(value) or is_cast:
        return set().union(*(_iters_of_operands(v, operands) for v in owner.operands))
    return set()


def _pad(
    scope: ir.Operation,
    block: ir.Operation,
    operands: Sequence[_Operand],
    sizes: Mapping[int, Dim],
    indices: IndexSymbols,
) -> None:
    extents = iter_extents(indices, block)
    statement = tree.children(scope)[tree.statement_index(scope, block)]
    listed = [op.operation for op in own_operations(tree.body(scope))]
    following = listed[listed.index(statement) + 1]
    for operand in operands:
        if not any(axis in sizes for axis in operand.axes):
            continue
        shape = [
            1 if axis is None else sizes.get(axis, extents[axis])
            for axis in operand.axes
        ]
        name = accesses.buffer_name(operand.buffer) + "_pad"
        memory = accesses.storage_scope(operand.buffer)
        padded = alloc_buffer(scope, shape, operand.buffer, name, memory, indices)
        _redirect(block, operand.buffer, padded)
        with edit.insertion_point_before(following if operand.is_write else statement):
            _copy(operand, padded, shape, indices)
    _resize(block, sizes, indices)


def _redirect(block: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    for op in tree.subtree(block):
        for number, operand in enumerate(list(op.operands)):
            if operand == old:
                op.operands[number] = new


def _copy(
    operand: _Operand, padded: ir.Value, shape: Sequence[Dim], indices: IndexSymbols
) -> None:
    """Creates loops and a block that copy to or from a padded buffer, at the insertion point."""
    buffer_shape = accesses.buffer_shape(operand.buffer)
    sizes = buffer_shape if operand.is_write else shape
    dtype = index_dtype(operand.buffer)
    insertion_point, values = ir.InsertionPoint.current, []
    for number, size in enumerate(sizes):
        with insertion_point:
            attributes = edit.loop_attributes(f"i{number}", dtype=dtype)
            loop = edit.make_loop(indices, size, attributes)
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(loop)))
        values.append(loop_var(loop))
    axes = [IterVarSpec("S", size, f"v{n}", dtype) for n, size in enumerate(sizes)]
    with insertion_point:
        block = edit.make_block(
            accesses.buffer_name(padded), axes, values, indices.emit
        )
    inner = edit.create_region(block, 1)
    iter_values = list(inner.arguments)
    with edit.insertion_point_before(edit.terminator(inner)):
        if operand.is_write:
            value, target = load_element(padded, iter_values), operand.buffer
        else:
            bounds = [
                Condition("lt", indices.of(v), size)
                for v, size, new in zip(iter_values, buffer_shape, shape, strict=True)
                if size != new
            ]
            value, target = (
                _element_or_zero(operand.buffer, iter_values, bounds, indices),
                padded,
            )
        ir.Operation.create("memref.store", operands=[value, target, *iter_values])


def _element_or_zero(
    buffer: ir.Value,
    iter_values: Sequence[ir.Value],
    bounds: Sequence[Condition],
    indices: IndexSymbols,
) -> ir.Value:
    condition = predicates.emit_conditions(bounds, indices)
    is_bool = element_dtype(buffer) == "bool"
    element = ir.MemRefType(buffer.type).element_type
    type_ = ir.IntegerType.get_signless(1) if is_bool else element
    made = ir.Operation.create(
        "scf.if", results=[type_], operands=[condition], regions=2
    )
    for number, region in enumerate(made.regions):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            value = (
                load_compute_element(buffer, iter_values)
                if number == 0
                else _zero(type_)
            )
            ir.Operation.create("scf.yield", operands=[value])
    return to_storage_type(made.results[0], buffer)


def _zero(type_: ir.Type) -> ir.Value:
    is_integer = isinstance(type_, ir.IntegerType)
    attr = ir.IntegerAttr.get(type_, 0) if is_integer else ir.FloatAttr.get(type_, 0.0)
    return emit("arith.constant", type_, value=attr)


def _resize(
    block: ir.Operation, sizes: Mapping[int, Dim], indices: IndexSymbols
) -> None:
    """Set new extents of iter vars and the loops they are bound to."""
    extents = iter_extents(indices, block)
    values = tree.bindings(block)
    for loop in tree.enclosing_loops(block):
        for number, size in sizes.items():
            if values[number] == loop_var(loop):
                with edit.insertion_point_before(loop):
                    loop.operands[1] = indices.emit(size)
    with edit.insertion_point_before(block):
        edit.set_iter_extents(
            block, [sizes.get(n, e) for n, e in enumerate(extents)], indices.emit
        )
