"""The primitive that pads the axes of a sum of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.indexing import constant_of
from relax_mlir.tir.schedule import accesses, edit, legality, predicates, tree
from relax_mlir.tir.schedule.buffers import element_dtype
from relax_mlir.tir.schedule.cache import (
    alloc_buffer,
    as_stored,
    load_element,
    read_element,
    size_dtype,
)
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.predicates import Condition
from relax_mlir.tir.schedule.reductions import match_reduction
from relax_mlir.tir.schedule.state import ScheduleState, extents_of, loop_var
from relax_mlir.tir.schedule.whole_writes import is_conditional
from relax_mlir.traversal import own_operations

__all__ = ["pad_einsum"]

_WHERE = "pad_einsum"
_PRODUCTS = ("arith.mulf", "arith.muli")


@dataclass(frozen=True)
class _Operand:
    """A buffer that a block reads or writes.

    Attributes:
        buffer: the buffer.
        axes: the axis that each index is; None for the number 0.
        is_write: whether it is written.
    """

    buffer: ir.Value
    axes: Sequence[int | None]
    is_write: bool


def pad_einsum(
    state: ScheduleState, block: ir.Operation, padding: Sequence[int]
) -> None:
    """Pad the axes of a sum of products; see :meth:`Schedule.pad_einsum`."""
    legality.check_not_root(block, _WHERE)
    legality.check_outside_init([block], _WHERE)
    legality.check_axis_starts(block, _WHERE)
    scope = tree.scope_of(block)
    legality.check_stage_pipeline(scope, _WHERE)
    count = len(tree.kinds_of(block))
    if len(padding) != count or any(p <= 0 for p in padding):
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)}: expected {count} numbers above 0, got "
            f"{list(padding)}"
        )
    if tree.guard_of(block) is not None:
        raise ScheduleError(f"{_WHERE}: {tree.describe(block)} has a predicate")
    operands = _operands(block)
    _check_alone(tree.child_of(scope, block), block, operands)
    with state.change(block) as indices:
        sizes = _padded_sizes(block, padding, indices)
        if sizes:
            legality.check_bound_in_scope(block, _WHERE)
            _check_whole(block, operands, sizes, indices)
            _check_stored(scope, block, operands)
            _check_written(block, operands, sizes)
            _check_started(block, operands)
            _check_products(block, operands, sizes)
            _pad(scope, block, operands, sizes, indices)


def _operands(block: ir.Operation) -> list[_Operand]:
    """The buffers of a block whose indices are axes or 0; those read first."""
    axes = list(tree.body(block).arguments)
    found: dict[ir.Value, _Operand] = {}
    for access in accesses.accesses_in(tree.body(block)):
        place = access.index_values
        if access.is_opaque or any(
            v not in axes and constant_of(v) != 0 for v in place
        ):
            raise _no_einsum(block)
        numbers = [axes.index(v) if v in axes else None for v in place]
        known = found.get(access.buffer)
        if known is not None and list(known.axes) != numbers:
            raise _no_einsum(block)
        is_write = access.is_write or (known is not None and known.is_write)
        found[access.buffer] = _Operand(access.buffer, numbers, is_write)
    return sorted(found.values(), key=lambda o: o.is_write)


def _no_einsum(block: ir.Operation) -> ScheduleError:
    return ScheduleError(
        f"{_WHERE}: {tree.describe(block)}: expected that each buffer is used at one "
        "place, whose indices are axes or 0"
    )


def _check_alone(
    statement: ir.Operation, block: ir.Operation, operands: Sequence[_Operand]
) -> None:
    """Copies stand before and behind all that the block stands in."""
    for other in tree.blocks_below(statement):
        touched = [a.buffer for a in accesses.accesses_in(other)]
        written = accesses.buffers_written(other)
        if other != block and any(
            o.buffer in (touched if o.is_write else written) for o in operands
        ):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)} and {tree.describe(other)} stand in "
                "one loop, and one uses what the other writes: expected loops of their own"
            )


def _padded_sizes(
    block: ir.Operation, padding: Sequence[int], indices: Indices
) -> dict[int, Dim]:
    """The new extents of the axes that are padded."""
    loops = {
        loop_var(loop)
        for loop in tree.enclosing_loops(block)
        if tree.blocks_below(loop) == [block]
    }
    found: dict[int, Dim] = {}
    extents = extents_of(indices, block)
    values = tree.bindings(block)
    for number, (extent, by) in enumerate(zip(extents, padding, strict=True)):
        padded = dims.ceildiv(extent, by) * by
        if padded == extent:
            continue
        if values[number] not in loops or values.count(values[number]) > 1:
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)}: axis "
                f"`{tree.axis_names(block)[number]}` is no loop of its own: expected a "
                "loop around this block alone as the binding of an axis that is padded"
            )
        found[number] = padded
    return found


def _check_written(
    block: ir.Operation, operands: Sequence[_Operand], sizes: Mapping[int, Dim]
) -> None:
    """A point that is added writes an element that is added."""
    padded = [n for n in sizes if tree.kinds_of(block)[n] == "S"]
    for operand in (o for o in operands if o.is_write):
        for number in padded:
            if number not in operand.axes:
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)}: axis "
                    f"`{tree.axis_names(block)[number]}` is no index of "
                    f"`{accesses.buffer_name(operand.buffer)}`, which would be written "
                    "again: expected indices as spatial axes that are padded"
                )


def _check_whole(
    block: ir.Operation,
    operands: Sequence[_Operand],
    sizes: Mapping[int, Dim],
    indices: Indices,
) -> None:
    """What is padded is the whole of a buffer, which a copy of that size takes in."""
    extents = extents_of(indices, block)
    for operand in operands:
        shape = accesses.buffer_shape(operand.buffer)
        for number, size in zip(operand.axes, shape, strict=True):
            is_copied = operand.is_write or number in sizes
            if number is not None and is_copied and size != extents[number]:
                raise ScheduleError(
                    f"{_WHERE}: {tree.describe(block)}: axis "
                    f"`{tree.axis_names(block)[number]}` goes over {extents[number]} of "
                    f"{size} elements of `{accesses.buffer_name(operand.buffer)}`: "
                    "expected all"
                )


def _check_stored(
    scope: ir.Operation, block: ir.Operation, operands: Sequence[_Operand]
) -> None:
    """Refuse stores that leave out elements of a buffer with values from before."""
    own = accesses.own_buffers(scope)
    found = accesses.accesses_in(tree.body(block))
    for operand in operands:
        if not operand.is_write or operand.buffer in own:
            continue
        pairs = zip(operand.axes, accesses.buffer_shape(operand.buffer), strict=True)
        places = [axis for axis, size in pairs if axis is not None or size != 1]
        stores = [a for a in found if a.buffer == operand.buffer and a.is_write]
        if (
            None in places
            or len(set(places)) < len(places)
            or all(is_conditional(a, block) for a in stores)
        ):
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)} may leave out elements of "
                f"`{accesses.buffer_name(operand.buffer)}`: expected a store of each, under "
                "no condition"
            )


def _check_started(block: ir.Operation, operands: Sequence[_Operand]) -> None:
    """Refuse to go on with values from before: a padded buffer has not got them."""
    read = [a.buffer for a in accesses.accesses_in(block) if not a.is_write]
    updated = [o.buffer for o in operands if o.is_write and o.buffer in read]
    start = tree.init_of(block)
    if updated and start is None:
        raise ScheduleError(
            f"{_WHERE}: {tree.describe(block)} reads `{accesses.buffer_name(updated[0])}`, "
            "which it writes, and has no start value (`T.init`): expected one"
        )
    used = [] if start is None else accesses.accesses_in(start)
    if any(not a.is_write for a in used):
        raise ScheduleError(
            f"{_WHERE}: the start value of {tree.describe(block)} is read from a buffer: "
            "expected a number"
        )


def _check_products(
    block: ir.Operation, operands: Sequence[_Operand], sizes: Mapping[int, Dim]
) -> None:
    """What is padded with 0 adds 0 to a sum."""
    kinds = tree.kinds_of(block)
    padded = {n for n in sizes if kinds[n] == "R"}
    if not padded:
        return
    legality.check_reduction(block, _WHERE)
    found = match_reduction(block, _WHERE)
    for part in found.parts:
        zeros = _axes_of_factors(part.new, operands)
        if part.combine.name not in ("arith.addf", "arith.addi") or padded - zeros:
            raise ScheduleError(
                f"{_WHERE}: {tree.describe(block)}: expected a sum of products with a "
                "factor for every reduce axis that is padded"
            )


def _axes_of_factors(value: ir.Value, operands: Sequence[_Operand]) -> set[int | None]:
    """The axes of the elements that a value is a product of."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return set()
    if owner.name == "memref.load":
        (operand,) = [o for o in operands if o.buffer == owner.operands[0]]
        return set(operand.axes)
    is_cast = owner.name.startswith(("arith.ext", "arith.sitofp", "arith.trunc"))
    if owner.name in _PRODUCTS or is_cast:
        return set().union(*(_axes_of_factors(v, operands) for v in owner.operands))
    return set()


def _pad(
    scope: ir.Operation,
    block: ir.Operation,
    operands: Sequence[_Operand],
    sizes: Mapping[int, Dim],
    indices: Indices,
) -> None:
    extents = extents_of(indices, block)
    statement = tree.children(scope)[tree.position_in(scope, block)]
    listed = [op.operation for op in own_operations(tree.body(scope))]
    behind = listed[listed.index(statement) + 1]
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
        with edit.point_before(behind if operand.is_write else statement):
            _copy(operand, padded, shape, indices)
    _resize(block, sizes, indices)


def _redirect(block: ir.Operation, old: ir.Value, new: ir.Value) -> None:
    for op in tree.subtree(block):
        for number, operand in enumerate(list(op.operands)):
            if operand == old:
                op.operands[number] = new


def _copy(
    operand: _Operand, padded: ir.Value, shape: Sequence[Dim], indices: Indices
) -> None:
    """Loops and a block that copy to or from a padded buffer, at the insertion point."""
    whole = accesses.buffer_shape(operand.buffer)
    sizes = whole if operand.is_write else shape
    dtype = size_dtype(operand.buffer)
    place, values = ir.InsertionPoint.current, []
    for number, size in enumerate(sizes):
        with place:
            attributes = edit.loop_attributes(f"i{number}", dtype=dtype)
            loop = edit.make_loop(indices, size, attributes)
        place = edit.point_before(edit.terminator(tree.body(loop)))
        values.append(loop_var(loop))
    axes = [Axis("S", size, f"v{n}", dtype) for n, size in enumerate(sizes)]
    with place:
        block = edit.make_block(
            accesses.buffer_name(padded), axes, values, indices.emit
        )
    inner = edit.open_region(block, 1)
    point = list(inner.arguments)
    with edit.point_before(edit.terminator(inner)):
        if operand.is_write:
            value, target = load_element(padded, point), operand.buffer
        else:
            bounds = [
                Condition("lt", indices.of(v), size)
                for v, size, new in zip(point, whole, shape, strict=True)
                if size != new
            ]
            value, target = (
                _element_or_zero(operand.buffer, point, bounds, indices),
                padded,
            )
        ir.Operation.create("memref.store", operands=[value, target, *point])


def _element_or_zero(
    buffer: ir.Value,
    point: Sequence[ir.Value],
    bounds: Sequence[Condition],
    indices: Indices,
) -> ir.Value:
    condition = predicates.emit_conditions(bounds, indices)
    is_truth = element_dtype(buffer) == "bool"
    element = ir.MemRefType(buffer.type).element_type
    type_ = ir.IntegerType.get_signless(1) if is_truth else element
    made = ir.Operation.create(
        "scf.if", results=[type_], operands=[condition], regions=2
    )
    for number, region in enumerate(made.regions):
        with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
            value = read_element(buffer, point) if number == 0 else _zero(type_)
            ir.Operation.create("scf.yield", operands=[value])
    return as_stored(made.results[0], buffer)


def _zero(type_: ir.Type) -> ir.Value:
    is_integer = isinstance(type_, ir.IntegerType)
    attr = ir.IntegerAttr.get(type_, 0) if is_integer else ir.FloatAttr.get(type_, 0.0)
    return emit("arith.constant", type_, value=attr)


def _resize(block: ir.Operation, sizes: Mapping[int, Dim], indices: Indices) -> None:
    """Let axes, and the loops that they are bound to, have other extents."""
    extents = extents_of(indices, block)
    values = tree.bindings(block)
    for loop in tree.enclosing_loops(block):
        for number, size in sizes.items():
            if values[number] == loop_var(loop):
                with edit.point_before(loop):
                    loop.operands[1] = indices.emit(size)
    with edit.point_before(block):
        edit.set_extents(
            block, [sizes.get(n, e) for n, e in enumerate(extents)], indices.emit
        )
