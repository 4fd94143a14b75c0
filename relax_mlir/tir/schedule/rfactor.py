"""The primitive that keeps partial results of a reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tir.schedule.cache import alloc_buffer
from relax_mlir.tir.schedule.decompose import axes_of, symbols_in
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, mentions
from relax_mlir.tir.schedule.reductions import (
    Part,
    Reduction,
    match_reduction,
    same_value,
)
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import own_operations

__all__ = ["rfactor"]


def rfactor(state: ScheduleState, loop: ir.Operation, factor_axis: int) -> ir.Operation:
    """Keep a partial result for each step of a loop; see :meth:`Schedule.rfactor`."""
    where = "rfactor"
    blocks = tree.blocks_below(loop)
    if len(blocks) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} holds {len(blocks)} blocks: expected one"
        )
    (block,) = blocks
    legality.check_reduction(block, where)
    legality.check_outside_init([block], where)
    legality.check_axis_sizes(block, where)
    legality.check_stage_pipeline(tree.scope_of(block), where)
    loops = tree.enclosing_loops(block)
    _check_loops(block, loops, loop)
    alone = [o for o in loops if tree.blocks_below(o) == [block]]
    dependences.check_start_hoisted(block, alone, where)
    low, _ = loop_bounds(Indices(), loop)
    if isinstance(low, int) and low < 0:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} begins at {low}: expected 0 or more"
        )
    found = match_reduction(block, where)
    buffer = found.parts[0].buffer
    rank = len(accesses.buffer_shape(buffer))
    if not -rank - 1 <= factor_axis <= rank:
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` has {rank} "
            f"dimensions: expected a factor_axis from {-rank - 1} to {rank}, got "
            f"{factor_axis}"
        )
    axis = factor_axis + rank + 1 if factor_axis < 0 else factor_axis
    with state.change(loop) as indices:
        return _rfactor(state, found, loops, loop, axis, indices)


def _check_loops(
    block: ir.Operation, loops: Sequence[ir.Operation], loop: ir.Operation
) -> None:
    indices = Indices()
    spatial = symbols_in(block, indices, "S")
    reduce = symbols_in(block, indices, "R")
    for other in loops:
        name = indices.symbol(loop_var(other))
        described = tree.describe(other)
        if name in spatial and name in reduce:
            raise ScheduleError(
                f"rfactor: {described} is part of spatial and of reduce axes"
            )
        if other == loop and name in spatial:
            raise ScheduleError(
                f"rfactor: {described} is part of a spatial axis: expected a loop of a "
                "reduce axis"
            )
    if any(
        c.value is not None or mentions(c.slack, [indices.symbol(loop_var(loop))])
        for c in predicates.block_conditions(block, indices)
    ):
        raise ScheduleError(
            f"rfactor: the predicate of {tree.describe(block)} depends on "
            f"{tree.describe(loop)}: expected each partial result to have a start value"
        )
    for other in loops:
        if tree.kind_of(other) not in ("serial", "unrolled") and other == loop:
            raise ScheduleError(
                f"rfactor: {tree.describe(other)} is {tree.kind_of(other)}: expected a "
                "serial loop"
            )
    for other in loops:
        is_reduce = indices.symbol(loop_var(other)) in reduce
        inner = tree.children(other)
        if len(inner) > 1 and (is_reduce or inner[0] != tree.child_of(other, block)):
            raise ScheduleError(
                f"rfactor: {tree.describe(other)} holds more than one statement: expected "
                f"that {tree.describe(block)} comes first, and loops of spatial axes alone"
            )


def _rfactor(
    state: ScheduleState,
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    indices: Indices,
) -> ir.Operation:
    block = found.block
    low, extent = loop_bounds(indices, loop)
    partials: list[ir.Value] = []
    for part in found.parts:
        shape = list(accesses.buffer_shape(part.buffer))
        shape.insert(axis, low + extent)
        name = accesses.buffer_name(part.buffer) + "_rf"
        memory = accesses.storage_scope(part.buffer)
        scope = tree.scope_of(block)
        partials.append(alloc_buffer(scope, shape, part.buffer, name, memory, indices))
    final = _final_block(found, loops, loop, axis, partials, indices)
    loops = _on_their_own(loops, _shared(loops, block), indices)
    made = _partial_block(found, loops, loop, axis, partials, indices)
    state.replace(block, final)
    rewriting.erase(block)
    edit.localise(tree.function_of(final))
    return made


def _shared(loops: Sequence[ir.Operation], block: ir.Operation) -> int:
    """How many of the loops around a block hold other statements, too."""
    count = 0
    for number, loop in enumerate(loops):
        if tree.children(loop) != [tree.child_of(loop, block)]:
            count = number + 1
    return count


def _on_their_own(
    loops: Sequence[ir.Operation], shared: int, indices: Indices
) -> list[ir.Operation]:
    """Give a nest copies of the outer loops, in front of those, that hold it alone."""
    if not shared:
        return list(loops)
    inner = loops[shared]
    place, copies = edit.point_before(loops[0]), dict[str, Dim]()
    made: list[ir.Operation] = []
    for old in loops[:shared]:
        low, extent = (substitute(d, copies) for d in loop_bounds(indices, old))
        with place:
            new = edit.make_loop(indices, extent, edit.attributes_of(old), low)
        copies[indices.symbol(loop_var(old))] = indices.of(loop_var(new))
        place = edit.point_before(edit.terminator(tree.body(new)))
        made.append(new)
    edit.move_before(inner, edit.terminator(tree.body(made[-1])))
    known = {loop_var(a): loop_var(b) for a, b in zip(loops, made, strict=False)}
    for op in tree.subtree(made[-1]):
        for number, operand in enumerate(list(op.operands)):
            op.operands[number] = known.get(operand, operand)
    return [*made, *loops[shared:]]


def _final_block(
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partials: Sequence[ir.Value],
    indices: Indices,
) -> ir.Operation:
    """The block that combines the partial results, behind all."""
    block = found.block
    spatial = [n for n, k in enumerate(tree.kinds_of(block)) if k == "S"]
    reduced = symbols_in(block, indices, "R")
    values = [indices.of(v) for v in tree.bindings(block)]
    kept = [o for o in loops if indices.symbol(loop_var(o)) not in reduced or o == loop]
    shared = _shared(loops, block)
    copies: dict[str, Dim] = {
        name: dims.symbol(name)
        for name in (indices.symbol(loop_var(o)) for o in loops[:shared])
    }
    place = ir.InsertionPoint.after(loops[shared])
    for old in (o for o in kept if o not in loops[:shared]):
        low, extent = loop_bounds(indices, old)
        with place:
            made = edit.make_loop(
                indices,
                substitute(extent, copies),
                edit.attributes_of(old),
                substitute(low, copies),
            )
        copies[indices.symbol(loop_var(old))] = indices.of(loop_var(made))
        place = edit.point_before(edit.terminator(tree.body(made)))
    axes = axes_of(block, indices)
    low, extent = loop_bounds(indices, loop)
    dtype = tree.string_attr(loop, "tir.dtype", "int32")
    factor = Axis("R", extent, f"v{tree.loop_name(loop)}", dtype, low)
    bound = [copies[indices.symbol(loop_var(loop))]]
    bound += [substitute(values[n], copies) for n in spatial]
    with place:
        final = edit.make_block(
            tree.block_name(block),
            [factor, *(axes[n] for n in spatial)],
            [indices.emit(v) for v in bound],
            indices.emit,
            tree.annotations_of(block),
        )
    kept_names = {*copies}
    conditions = [
        c.replaced(copies, {})
        for c in predicates.block_conditions(block, indices)
        if not _loops_of(c, loops, indices) - kept_names
    ]
    predicates.set_predicate(final, conditions, indices)
    _fill_final(found, final, spatial, axis, partials)
    return final


def _loops_of(
    condition: predicates.Condition, loops: Sequence[ir.Operation], indices: Indices
) -> set[str]:
    """The loops that a condition depends on."""
    names = {indices.symbol(loop_var(loop)) for loop in loops}
    return names & set(symbols_of(condition.slack))


def _fill_final(
    found: Reduction,
    final: ir.Operation,
    spatial: Sequence[int],
    axis: int,
    partials: Sequence[ir.Value],
) -> None:
    """Combine what stands in the results with the partial results."""
    start, body = edit.open_region(final, 0), edit.open_region(final, 1)
    old_start = tree.init_of(found.block)
    assert old_start is not None
    axes = list(start.arguments)[1:]
    known: dict[ir.Value, ir.Value] = {
        old_start.arguments[n]: a for n, a in zip(spatial, axes, strict=True)
    }
    with edit.point_before(edit.terminator(start)):
        for part in found.parts:
            value = edit.copy_of(part.start.operands[0], known)
            place = [edit.copy_of(v, known) for v in list(part.start.operands)[2:]]
            _store(value, part.buffer, place)
    old_body, axes = tree.body(found.block), list(body.arguments)[1:]
    known = {old_body.arguments[n]: a for n, a in zip(spatial, axes, strict=True)}
    with edit.point_before(edit.terminator(body)):
        place = [edit.copy_of(v, known) for v in found.place]
        inner = [*place[:axis], body.arguments[0], *place[axis:]]
        leaves: list[tuple[ir.Value, ir.Value]] = []
        for part, partial in zip(found.parts, partials, strict=True):
            type_ = part.combine.results[0].type
            leaves.append(
                (part.so_far, emit("memref.load", type_, part.buffer, *place))
            )
            leaves.append((part.new, emit("memref.load", type_, partial, *inner)))
        values = [_rebuilt(p.combine.results[0], leaves, {}) for p in found.parts]
        named = values
        if len(values) > 1:
            named = [_let(p, v) for p, v in zip(found.parts, values, strict=True)]
        for part, value in zip(found.parts, named, strict=True):
            _store(value, part.buffer, place)


def _let(part: Part, value: ir.Value) -> ir.Value:
    """A value under the name that it has in the old block."""
    if part.let is None:
        return value
    made = ir.Operation.create(
        "tir.let",
        results=[value.type],
        operands=[value],
        attributes={"name": ir.StringAttr.get(part.let)},
    )
    return made.results[0]


def _store(value: ir.Value, buffer: ir.Value, place: Sequence[ir.Value]) -> None:
    ir.Operation.create("memref.store", operands=[value, buffer, *place])


def _rebuilt(
    value: ir.Value,
    leaves: Sequence[tuple[ir.Value, ir.Value]],
    made: dict[ir.Value, ir.Value],
) -> ir.Value:
    """A value computed once more, with others in place of its leaves.

    Args:
        made: what was computed so far; added to.
    """
    for old, new in leaves:
        if same_value(value, old):
            return new
    if value not in made:
        operands = [_rebuilt(v, leaves, made) for v in value.owner.operands]
        copy = value.owner.operation.clone()
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        made[value] = copy.results[0]
    return made[value]


def _partial_block(
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partials: Sequence[ir.Value],
    indices: Indices,
) -> ir.Operation:
    """The block that makes the partial results, where the old one stood."""
    block = found.block
    factor = indices.symbol(loop_var(loop))
    axes, values, known = _partial_axes(block, loops, loop, indices)
    with edit.point_before(block):
        made = edit.make_block(
            tree.block_name(block) + "_rf",
            [a for a, _ in axes],
            [indices.emit(v) for _, v in axes],
            indices.emit,
            tree.annotations_of(block),
        )
    number = [v for _, v in axes].index(dims.symbol(factor))
    has_reduce = any(a.kind == "R" for a, _ in axes)
    for which in (0, 1) if has_reduce else (1,):
        new = edit.open_region(made, which)
        old = block.regions[which].blocks[0]
        inner = dict(zip(values, map(indices.of, new.arguments), strict=True))
        mapping = _copy_region(old, new, inner, known, indices)
        _rename_lets(new, is_only=len(found.parts) == 1)
        if not has_reduce:
            _store_new_values(found, new, mapping)
        _put_stores_in_order(found, new)
        for part, partial in zip(found.parts, partials, strict=True):
            _redirect_partial(new, part.buffer, partial, axis, new.arguments[number])
    return made


def _put_stores_in_order(found: Reduction, region: ir.Block) -> None:
    stores = _stores_in(region)
    for part in found.parts:
        stores[part.buffer].move_before(edit.terminator(region))


def _stores_in(region: ir.Block) -> dict[ir.Value, ir.Operation]:
    """The stores of a region, by the buffers that they write."""
    listed = [op.operation for op in own_operations(region)]
    return {op.operands[1]: op for op in listed if op.name == "memref.store"}


def _rename_lets(region: ir.Block, *, is_only: bool) -> None:
    """Names of partial results; the value of an only one needs none."""
    for op in list(own_operations(region)):
        if op.operation.name == "tir.let":
            if is_only:
                rewriting.replace(op.operation, op.operation.operands[0])
                continue
            name = tree.string_attr(op.operation, "name") + "_rf"
            op.operation.attributes["name"] = ir.StringAttr.get(name)


def _store_new_values(
    found: Reduction, region: ir.Block, mapping: Mapping[ir.Value, ir.Value]
) -> None:
    """Where nothing is left to combine, a new value is the partial result."""
    stores = _stores_in(region)
    for part in found.parts:
        stores[part.buffer].operands[0] = mapping.get(part.new, part.new)
    rewriting.erase_dead(
        region,
        lambda op: tree.is_pure(op) or op.name in ("memref.load", "tir.let"),
    )


def _partial_axes(
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    indices: Indices,
) -> tuple[list[tuple[Axis, Dim]], list[str], list[Dim | str]]:
    """The axes of the partial block with their values.

    Returns:
        The axes; what each is called while regions are copied: the symbol of its loop, or
        ``old`` and a number; and per axis of the old block what it is in those terms.
    """
    by_symbol = {indices.symbol(loop_var(o)): o for o in loops}
    factor = indices.symbol(loop_var(loop))
    touched = _touched(block, factor, set(by_symbol), indices)
    axes: list[tuple[Axis, Dim]] = []
    names: list[str] = []

    def add(axis: Axis, value: Dim, name: str) -> None:
        axes.append((axis, value))
        names.append(name)

    def add_loop(name: str, kind: str) -> None:
        op = by_symbol[name]
        dtype = tree.string_attr(op, "tir.dtype", "int32")
        low, extent = loop_bounds(indices, op)
        axis = Axis(kind, extent, f"v{tree.loop_name(op)}", dtype, low)
        add(axis, dims.symbol(name), name)

    add_loop(factor, "S")
    known: list[Dim | str] = []
    for number, axis in enumerate(axes_of(block, indices)):
        value = indices.of(tree.bindings(block)[number])
        used = [n for n in symbols_of(value) if n in by_symbol]
        if number not in touched:
            add(axis, value, f"old{number}")
            known.append(dims.symbol(f"old{number}"))
            continue
        for name in used:
            if name not in names:
                add_loop(name, "R")
        known.append(value)
    return axes, names, known


def _touched(
    block: ir.Operation, factor: str, loops: set[str], indices: Indices
) -> set[int]:
    """The reduce axes that depend on a loop, and those that share loops with them."""
    used = {
        n: set(symbols_of(indices.of(v))) & loops
        for n, (v, kind) in enumerate(
            zip(tree.bindings(block), tree.kinds_of(block), strict=True)
        )
        if kind == "R"
    }
    reached, found = {factor}, set[int]()
    while True:
        more = {n for n, names in used.items() if n not in found and names & reached}
        if not more:
            return found
        found |= more
        reached = reached.union(*(used[n] for n in more))


def _copy_region(
    old: ir.Block,
    new: ir.Block,
    inner: Mapping[str, Dim],
    known: Sequence[Dim | str],
    indices: Indices,
) -> dict[ir.Value, ir.Value]:
    """Fill a region of the partial block; returns what each old value is there."""
    mapping: dict[ir.Value, ir.Value] = {}
    with edit.point_before(edit.terminator(new)):
        for argument, value in zip(old.arguments, known, strict=True):
            assert not isinstance(value, str)
            mapping[argument] = indices.emit(substitute(value, inner))
        *operations, _ = own_operations(old)
        for op in operations:
            rewriting.clone(op, mapping)
    return mapping


def _redirect_partial(
    region: ir.Block, buffer: ir.Value, partial: ir.Value, axis: int, factor: ir.Value
) -> None:
    """Let accesses of the result be accesses of the partial result."""
    for access in accesses.accesses_in(region):
        if access.buffer != buffer:
            continue
        op = access.op
        place = access.index_values
        inner = [*place[:axis], factor, *place[axis:]]
        with edit.point_before(op):
            if access.is_write:
                ir.Operation.create(
                    "memref.store", operands=[op.operands[0], partial, *inner]
                )
                rewriting.erase(op)
            else:
                value = emit("memref.load", op.results[0].type, partial, *inner)
                rewriting.replace(op, value)
