"""The ``rfactor`` primitive: partial reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import substitute, symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tvm.tir.schedule.cache import alloc_buffer
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of, symbols_of_iters
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, contains_symbol
from relax_mlir.tvm.tir.schedule.reductions import (
    Reduction,
    ReductionResult,
    is_same_value,
    match_reduction,
)
from relax_mlir.tvm.tir.schedule.state import ScheduleState, loop_bounds, loop_var

__all__ = ["rfactor"]


def rfactor(state: ScheduleState, loop: ir.Operation, factor_axis: int) -> ir.Operation:
    """Factorise a reduction over a loop; see :meth:`Schedule.rfactor`."""
    where = "rfactor"
    blocks = tree.blocks_below(loop)
    if len(blocks) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} contains {len(blocks)} blocks: expected one"
        )
    (block,) = blocks
    legality.check_reduction(block, where)
    legality.check_outside_init([block], where)
    legality.check_iter_domain(block, where)
    legality.check_stage_pipeline(tree.scope_of(block), where)
    loops = tree.enclosing_loops(block)
    _check_loops(block, loops, loop)
    own_loops = [o for o in loops if tree.blocks_below(o) == [block]]
    dependences.check_init_hoist(block, own_loops, where)
    low, _ = loop_bounds(IndexSymbols(), loop)
    if isinstance(low, int) and low < 0:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} starts at {low}: expected 0 or more"
        )
    found = match_reduction(block, where)
    buffer = found.results[0].buffer
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
    indices = IndexSymbols()
    spatial = symbols_of_iters(block, indices, "S")
    reduce = symbols_of_iters(block, indices, "R")
    for other in loops:
        name = indices.symbol(loop_var(other))
        described = tree.describe(other)
        if name in spatial and name in reduce:
            raise ScheduleError(
                f"rfactor: {described} is bound to spatial and to reduce axes"
            )
        if other == loop and name in spatial:
            raise ScheduleError(
                f"rfactor: {described} is bound to a spatial axis: expected a loop of a "
                "reduce axis"
            )
    if any(
        c.value is not None
        or contains_symbol(c.slack, [indices.symbol(loop_var(loop))])
        for c in predicates.block_conditions(block, indices)
    ):
        raise ScheduleError(
            f"rfactor: the predicate of {tree.describe(block)} depends on "
            f"{tree.describe(loop)}: expected each partial result to be initialised"
        )
    for other in loops:
        if tree.loop_kind(other) not in ("serial", "unrolled") and other == loop:
            raise ScheduleError(
                f"rfactor: {tree.describe(other)} is {tree.loop_kind(other)}: expected a "
                "serial loop"
            )
    for other in loops:
        is_reduce = indices.symbol(loop_var(other)) in reduce
        inner = tree.children(other)
        if len(inner) > 1 and (
            is_reduce or inner[0] != tree.child_containing(other, block)
        ):
            raise ScheduleError(
                f"rfactor: {tree.describe(other)} contains more than one statement: expected "
                f"that {tree.describe(block)} comes first, and only loops of spatial axes"
            )


def _rfactor(
    state: ScheduleState,
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    indices: IndexSymbols,
) -> ir.Operation:
    block = found.block
    low, extent = loop_bounds(indices, loop)
    partials: list[ir.Value] = []
    for part in found.results:
        shape = list(accesses.buffer_shape(part.buffer))
        shape.insert(axis, low + extent)
        name = accesses.buffer_name(part.buffer) + "_rf"
        memory = accesses.storage_scope(part.buffer)
        scope = tree.scope_of(block)
        partials.append(alloc_buffer(scope, shape, part.buffer, name, memory, indices))
    final = _create_final_block(found, loops, loop, axis, partials, indices)
    loops = _distribute_loops(loops, _shared_loop_count(loops, block), indices)
    made = _create_rfactor_block(found, loops, loop, axis, partials, indices)
    state.replace(block, final)
    patterns.erase(block)
    edit.rematerialize_all(tree.function_of(final))
    return made


def _shared_loop_count(loops: Sequence[ir.Operation], block: ir.Operation) -> int:
    """The number of outer loops around a block that contain other statements, too."""
    count = 0
    for number, loop in enumerate(loops):
        if tree.children(loop) != [tree.child_containing(loop, block)]:
            count = number + 1
    return count


def _distribute_loops(
    loops: Sequence[ir.Operation], shared: int, indices: IndexSymbols
) -> list[ir.Operation]:
    """Distribute shared outer loops: copies of them around the nest, in front of the old ones."""
    if not shared:
        return list(loops)
    inner = loops[shared]
    insertion_point, copies = edit.insertion_point_before(loops[0]), dict[str, Dim]()
    made: list[ir.Operation] = []
    for old in loops[:shared]:
        low, extent = (substitute(d, copies) for d in loop_bounds(indices, old))
        with insertion_point:
            new = edit.make_loop(indices, extent, edit.attributes_of(old), low)
        copies[indices.symbol(loop_var(old))] = indices.of(loop_var(new))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(new)))
        made.append(new)
    edit.move_before(inner, edit.terminator(tree.body(made[-1])))
    known = {loop_var(a): loop_var(b) for a, b in zip(loops, made, strict=False)}
    for op in tree.subtree(made[-1]):
        for number, operand in enumerate(list(op.operands)):
            op.operands[number] = known.get(operand, operand)
    return [*made, *loops[shared:]]


def _create_final_block(
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partials: Sequence[ir.Value],
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates the block that combines the partial results, after the nest."""
    block = found.block
    spatial = [n for n, k in enumerate(tree.iter_kinds(block)) if k == "S"]
    reduce_loops = symbols_of_iters(block, indices, "R")
    values = [indices.of(v) for v in tree.bindings(block)]
    kept = [
        o for o in loops if indices.symbol(loop_var(o)) not in reduce_loops or o == loop
    ]
    shared = _shared_loop_count(loops, block)
    copies: dict[str, Dim] = {
        name: dims.symbol(name)
        for name in (indices.symbol(loop_var(o)) for o in loops[:shared])
    }
    insertion_point = ir.InsertionPoint.after(loops[shared])
    for old in (o for o in kept if o not in loops[:shared]):
        low, extent = loop_bounds(indices, old)
        with insertion_point:
            made = edit.make_loop(
                indices,
                substitute(extent, copies),
                edit.attributes_of(old),
                substitute(low, copies),
            )
        copies[indices.symbol(loop_var(old))] = indices.of(loop_var(made))
        insertion_point = edit.insertion_point_before(edit.terminator(tree.body(made)))
    axes = iter_vars_of(block, indices)
    low, extent = loop_bounds(indices, loop)
    dtype = tree.string_attr(loop, "tir.dtype", "int32")
    factor = IterVarSpec("R", extent, f"v{tree.loop_name(loop)}", dtype, low)
    bindings = [copies[indices.symbol(loop_var(loop))]]
    bindings += [substitute(values[n], copies) for n in spatial]
    with insertion_point:
        final = edit.make_block(
            tree.block_name(block),
            [factor, *(axes[n] for n in spatial)],
            [indices.emit(v) for v in bindings],
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
    _create_final_body(found, final, spatial, axis, partials)
    return final


def _loops_of(
    condition: predicates.Condition,
    loops: Sequence[ir.Operation],
    indices: IndexSymbols,
) -> set[str]:
    """The loops that a condition depends on."""
    names = {indices.symbol(loop_var(loop)) for loop in loops}
    return names & set(symbols_of(condition.slack))


def _create_final_body(
    found: Reduction,
    final: ir.Operation,
    spatial: Sequence[int],
    axis: int,
    partials: Sequence[ir.Value],
) -> None:
    """Creates the body that combines the accumulator with the partial results."""
    init, body = edit.create_region(final, 0), edit.create_region(final, 1)
    old_init = tree.init_block_of(found.block)
    assert old_init is not None
    axes = list(init.arguments)[1:]
    known: dict[ir.Value, ir.Value] = {
        old_init.arguments[n]: a for n, a in zip(spatial, axes, strict=True)
    }
    with edit.insertion_point_before(edit.terminator(init)):
        for part in found.results:
            value = edit.clone_expression(part.init.operands[0], known)
            element_indices = [
                edit.clone_expression(v, known) for v in list(part.init.operands)[2:]
            ]
            _store(value, part.buffer, element_indices)
    old_body, axes = tree.body(found.block), list(body.arguments)[1:]
    known = {old_body.arguments[n]: a for n, a in zip(spatial, axes, strict=True)}
    with edit.insertion_point_before(edit.terminator(body)):
        element_indices = [
            edit.clone_expression(v, known) for v in found.element_indices
        ]
        inner = [*element_indices[:axis], body.arguments[0], *element_indices[axis:]]
        leaves: list[tuple[ir.Value, ir.Value]] = []
        for part, partial in zip(found.results, partials, strict=True):
            type_ = part.combiner.results[0].type
            leaves.append(
                (
                    part.accumulator,
                    emit("memref.load", type_, part.buffer, *element_indices),
                )
            )
            leaves.append((part.new, emit("memref.load", type_, partial, *inner)))
        values = [
            _clone_with_leaves(p.combiner.results[0], leaves, {}) for p in found.results
        ]
        named = values
        if len(values) > 1:
            named = [_let(p, v) for p, v in zip(found.results, values, strict=True)]
        for part, value in zip(found.results, named, strict=True):
            _store(value, part.buffer, element_indices)


def _let(part: ReductionResult, value: ir.Value) -> ir.Value:
    """A value bound to the name it has in the old block."""
    if part.let is None:
        return value
    made = ir.Operation.create(
        "tir.let",
        results=[value.type],
        operands=[value],
        attributes={"name": ir.StringAttr.get(part.let)},
    )
    return made.results[0]


def _store(
    value: ir.Value, buffer: ir.Value, element_indices: Sequence[ir.Value]
) -> None:
    ir.Operation.create("memref.store", operands=[value, buffer, *element_indices])


def _clone_with_leaves(
    value: ir.Value,
    leaves: Sequence[tuple[ir.Value, ir.Value]],
    made: dict[ir.Value, ir.Value],
) -> ir.Value:
    """Clones an expression with its leaves replaced.

    Args:
        made: the clones so far; added to.
    """
    for old, new in leaves:
        if is_same_value(value, old):
            return new
    if value not in made:
        operands = [_clone_with_leaves(v, leaves, made) for v in value.owner.operands]
        copy = value.owner.operation.clone()
        for number, operand in enumerate(operands):
            copy.operands[number] = operand
        made[value] = copy.results[0]
    return made[value]


def _create_rfactor_block(
    found: Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partials: Sequence[ir.Value],
    indices: IndexSymbols,
) -> ir.Operation:
    """Creates the rfactor block, which computes the partial results, in place of the old one."""
    block = found.block
    factor = indices.symbol(loop_var(loop))
    axes, values, known = _rfactor_iters(block, loops, loop, indices)
    with edit.insertion_point_before(block):
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
        new = edit.create_region(made, which)
        old = block.regions[which].blocks[0]
        inner = dict(zip(values, map(indices.of, new.arguments), strict=True))
        mapping = _clone_region(old, new, inner, known, indices)
        _rename_lets(new, is_only=len(found.results) == 1)
        if not has_reduce:
            _store_new_values(found, new, mapping)
        _order_stores(found, new)
        for part, partial in zip(found.results, partials, strict=True):
            _redirect_partial(new, part.buffer, partial, axis, new.arguments[number])
    return made


def _order_stores(found: Reduction, region: ir.Block) -> None:
    stores = _stores_in(region)
    for part in found.results:
        stores[part.buffer].move_before(edit.terminator(region))


def _stores_in(region: ir.Block) -> dict[ir.Value, ir.Operation]:
    """The stores of a region, by the buffers that they write."""
    listed = [op.operation for op in own_operations(region)]
    return {op.operands[1]: op for op in listed if op.name == "memref.store"}


def _rename_lets(region: ir.Block, *, is_only: bool) -> None:
    """Rename ``let`` bindings of partial results; drop the one of a single result."""
    for op in list(own_operations(region)):
        if op.operation.name == "tir.let":
            if is_only:
                patterns.replace(op.operation, op.operation.operands[0])
                continue
            name = tree.string_attr(op.operation, "name") + "_rf"
            op.operation.attributes["name"] = ir.StringAttr.get(name)


def _store_new_values(
    found: Reduction, region: ir.Block, mapping: Mapping[ir.Value, ir.Value]
) -> None:
    """Store the new value as partial result if no reduction is left."""
    stores = _stores_in(region)
    for part in found.results:
        stores[part.buffer].operands[0] = mapping.get(part.new, part.new)
    patterns.erase_dead(
        region,
        lambda op: tree.is_pure(op) or op.name in ("memref.load", "tir.let"),
    )


def _rfactor_iters(
    block: ir.Operation,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    indices: IndexSymbols,
) -> tuple[list[tuple[IterVarSpec, Dim]], list[str], list[Dim | str]]:
    """The iter vars of the rfactor block with their bindings.

    Returns:
        The iter vars and bindings; the symbol of each while regions are cloned: that of its
        loop, or ``old`` and a number; and each old iter var in terms of those.
    """
    by_symbol = {indices.symbol(loop_var(o)): o for o in loops}
    factor = indices.symbol(loop_var(loop))
    affected = _affected_iters(block, factor, set(by_symbol), indices)
    axes: list[tuple[IterVarSpec, Dim]] = []
    names: list[str] = []

    def add(axis: IterVarSpec, value: Dim, name: str) -> None:
        axes.append((axis, value))
        names.append(name)

    def add_loop(name: str, kind: str) -> None:
        op = by_symbol[name]
        dtype = tree.string_attr(op, "tir.dtype", "int32")
        low, extent = loop_bounds(indices, op)
        axis = IterVarSpec(kind, extent, f"v{tree.loop_name(op)}", dtype, low)
        add(axis, dims.symbol(name), name)

    add_loop(factor, "S")
    known: list[Dim | str] = []
    for number, axis in enumerate(iter_vars_of(block, indices)):
        value = indices.of(tree.bindings(block)[number])
        used = [n for n in symbols_of(value) if n in by_symbol]
        if number not in affected:
            add(axis, value, f"old{number}")
            known.append(dims.symbol(f"old{number}"))
            continue
        for name in used:
            if name not in names:
                add_loop(name, "R")
        known.append(value)
    return axes, names, known


def _affected_iters(
    block: ir.Operation, factor: str, loops: set[str], indices: IndexSymbols
) -> set[int]:
    """The reduce iter vars that depend on a loop, and those that share loops with them."""
    used = {
        n: set(symbols_of(indices.of(v))) & loops
        for n, (v, kind) in enumerate(
            zip(tree.bindings(block), tree.iter_kinds(block), strict=True)
        )
        if kind == "R"
    }
    reached_loops, found = {factor}, set[int]()
    while True:
        more = {
            n for n, names in used.items() if n not in found and names & reached_loops
        }
        if not more:
            return found
        found |= more
        reached_loops = reached_loops.union(*(used[n] for n in more))


def _clone_region(
    old: ir.Block,
    new: ir.Block,
    inner: Mapping[str, Dim],
    known: Sequence[Dim | str],
    indices: IndexSymbols,
) -> dict[ir.Value, ir.Value]:
    """Clones a region into the rfactor block; returns the value mapping."""
    mapping: dict[ir.Value, ir.Value] = {}
    with edit.insertion_point_before(edit.terminator(new)):
        for argument, value in zip(old.arguments, known, strict=True):
            assert not isinstance(value, str)
            mapping[argument] = indices.emit(substitute(value, inner))
        *operations, _ = own_operations(old)
        for op in operations:
            patterns.clone(op, mapping)
    return mapping


def _redirect_partial(
    region: ir.Block, buffer: ir.Value, partial: ir.Value, axis: int, factor: ir.Value
) -> None:
    """Redirect accesses of the result to the partial result."""
    for access in accesses.accesses_in(region):
        if access.buffer != buffer:
            continue
        op = access.op
        element_indices = access.index_values
        inner = [*element_indices[:axis], factor, *element_indices[axis:]]
        with edit.insertion_point_before(op):
            if access.is_write:
                ir.Operation.create(
                    "memref.store", operands=[op.operands[0], partial, *inner]
                )
                patterns.erase(op)
            else:
                value = emit("memref.load", op.results[0].type, partial, *inner)
                patterns.replace(op, value)
