"""The primitive that keeps partial results of a reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.symbols import substitute, symbols_of
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.tir.schedule import accesses, edit, legality, predicates, tree
from relax_mlir.tir.schedule.cache import alloc_buffer
from relax_mlir.tir.schedule.decompose import axes_of, symbols_in
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.indices import Indices, mentions
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    loop_bounds,
    loop_var,
)

__all__ = ["rfactor"]

# Start value of the operations that partial results are combined with.
_COMBINERS: Mapping[str, float] = {
    "arith.addf": 0.0,
    "arith.addi": 0,
    "arith.mulf": 1.0,
    "arith.muli": 1,
    "arith.maximumf": -float("inf"),
    "arith.minimumf": float("inf"),
    "arith.maxsi": -float("inf"),
    "arith.minsi": float("inf"),
    "arith.maxui": 0,
    "arith.minui": float("inf"),
    "arith.andi": float("inf"),
    "arith.ori": 0,
}


@dataclass(frozen=True)
class _Reduction:
    """What a reduction block does at one point.

    Attributes:
        block: the block.
        start: the store of the start value.
        store: the store of what was combined.
        combine: the operation that combines.
        old: the operand of it that is the value so far.
    """

    block: ir.Operation
    start: ir.Operation
    store: ir.Operation
    combine: ir.Operation
    old: int

    @property
    def buffer(self) -> ir.Value:
        """What it writes."""
        return self.store.operands[1]


def _matched(block: ir.Operation) -> _Reduction:
    """The parts of a reduction whose combination has a known start value.

    Raises:
        ScheduleError: it has another form.
    """
    start = tree.init_of(block)
    assert start is not None
    stores = [
        [o.operation for o in b.operations if o.operation.name == "memref.store"]
        for b in (start, tree.body(block))
    ]
    if [len(s) for s in stores] != [1, 1]:
        raise _unmatched(
            block, "a start value and an update that each store one element"
        )
    (init,), (store,) = stores
    owner = store.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name not in _COMBINERS:
        raise _unmatched(block, "an update by a sum, product, minimum or maximum")
    return _checked(block, init, store, owner.operation)


def _checked(
    block: ir.Operation, init: ir.Operation, store: ir.Operation, combine: ir.Operation
) -> _Reduction:
    indices = Indices()
    start = tree.init_of(block)
    assert start is not None
    same: dict[str, Dim] = {
        indices.symbol(a): dims.symbol(indices.symbol(b))
        for a, b in zip(start.arguments, tree.body(block).arguments, strict=True)
    }
    where = [indices.of(v) for v in list(store.operands)[2:]]
    begun = [substitute(indices.of(v), same) for v in list(init.operands)[2:]]
    if begun != where or init.operands[1] != store.operands[1]:
        raise _unmatched(block, "a start value stored where the update stores")
    for number, operand in enumerate(combine.operands):
        load = operand.owner
        if isinstance(load, ir.Block) or load.name != "memref.load":
            continue
        place = [indices.of(v) for v in list(load.operands)[1:]]
        if load.operands[0] == store.operands[1] and place == where:
            if not _is_identity(init.operands[0], combine.name):
                raise _unmatched(block, "a start value that changes no other value")
            return _Reduction(block, init, store, combine, number)
    raise _unmatched(block, "an update that combines the value so far with another")


def _unmatched(block: ir.Operation, expected: str) -> ScheduleError:
    return ScheduleError(
        f"rfactor: {tree.describe(block)} is no commutative reduction: expected {expected}"
    )


def _is_identity(value: ir.Value, combiner: str) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    attr: Any = owner.attributes["value"]  # Any: the stubs know no numbers
    number, wanted = attr.value, _COMBINERS[combiner]
    if abs(wanted) != float("inf"):
        return number == wanted
    return number == wanted or _is_extreme(number, value.type, least=wanted < 0)


def _is_extreme(number: float, type_: ir.Type, *, least: bool) -> bool:
    """Whether a number is the least or the greatest of its type."""
    if isinstance(type_, ir.IntegerType):
        bits = type_.width
        wanted = -(1 << (bits - 1)) if least else (1 << (bits - 1)) - 1
        return number in (wanted, -1 if not least else wanted)
    greatest = {"f16": 65504.0, "f32": 3.4028234e38, "f64": 1.7976931348623157e308}
    limit = greatest.get(str(type_), 3.3895e38)
    return number <= -limit if least else number >= limit


def rfactor(state: ScheduleState, loop: ir.Operation, factor_axis: int) -> ir.Operation:
    """Keep a partial result for each step of a loop; see :meth:`Schedule.rfactor`."""
    where = "rfactor"
    found = tree.blocks_below(loop)
    if len(found) != 1:
        raise ScheduleError(
            f"{where}: {tree.describe(loop)} holds {len(found)} blocks: expected one"
        )
    (block,) = found
    legality.check_reduction(block, where)
    legality.check_stage_pipeline(tree.scope_of(block), where)
    loops = tree.enclosing_loops(block)
    _check_loops(block, loops, loop)
    parts = _matched(block)
    rank = len(accesses.buffer_shape(parts.buffer))
    if not -rank - 1 <= factor_axis <= rank:
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(parts.buffer)}` has {rank} "
            f"dimensions: expected a factor_axis from {-rank - 1} to {rank}, got "
            f"{factor_axis}"
        )
    axis = factor_axis + rank + 1 if factor_axis < 0 else factor_axis
    with state.change(loop) as indices:
        return _rfactor(state, parts, loops, loop, axis, indices)


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
    for outer, inner in pairwise(loops):
        if tree.children(outer) != [inner]:
            raise ScheduleError(
                f"rfactor: {tree.describe(outer)} holds more than one statement"
            )


def _rfactor(
    state: ScheduleState,
    parts: _Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    indices: Indices,
) -> ir.Operation:
    block = parts.block
    _, extent = loop_bounds(indices, loop)
    shape = list(accesses.buffer_shape(parts.buffer))
    shape.insert(axis, extent)
    partial = alloc_buffer(
        tree.scope_of(block),
        shape,
        parts.buffer,
        accesses.buffer_name(parts.buffer) + "_rf",
        accesses.storage_scope(parts.buffer),
        indices,
    )
    final = _final_block(parts, loops, loop, axis, partial, indices)
    made = _partial_block(parts, loops, loop, axis, partial, indices)
    state.replace(block, final)
    rewriting.erase(block)
    for root in (loops[0], final):
        edit.localise(tree.function_of(root))
    return made


def _final_block(
    parts: _Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partial: ir.Value,
    indices: Indices,
) -> ir.Operation:
    """The block that combines the partial results, behind all."""
    block = parts.block
    spatial = [n for n, k in enumerate(tree.kinds_of(block)) if k == "S"]
    used = symbols_in(block, indices, "S")
    values = [indices.of(v) for v in tree.bindings(block)]
    kept = [o for o in loops if indices.symbol(loop_var(o)) in used or o == loop]
    copies: dict[str, Dim] = {}
    place = _behind(loops[0])
    for old in kept:
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
    factor = Axis("R", loop_bounds(indices, loop)[1], f"v{tree.loop_name(loop)}")
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
    _fill_final(parts, final, spatial, axis, partial)
    return final


def _behind(op: ir.Operation) -> ir.InsertionPoint:
    """Where new operations stand right behind one."""
    listed = [o.operation for o in op.block.operations]
    return ir.InsertionPoint(listed[listed.index(op) + 1])


def _fill_final(
    parts: _Reduction,
    final: ir.Operation,
    spatial: Sequence[int],
    axis: int,
    partial: ir.Value,
) -> None:
    start, body = edit.open_region(final, 0), edit.open_region(final, 1)
    old_start = tree.init_of(parts.block)
    assert old_start is not None
    for old, new, store in (
        (old_start, start, parts.start),
        (tree.body(parts.block), body, parts.store),
    ):
        mapping: dict[ir.Value, ir.Value] = {
            old.arguments[n]: a
            for n, a in zip(spatial, list(new.arguments)[1:], strict=True)
        }
        with edit.point_before(edit.terminator(new)):
            place = [edit.copy_of(v, mapping) for v in list(store.operands)[2:]]
            if store == parts.start:
                value = edit.copy_of(store.operands[0], mapping)
            else:
                value = _combined(parts, place, new.arguments[0], axis, partial)
            ir.Operation.create("memref.store", operands=[value, parts.buffer, *place])


def _combined(
    parts: _Reduction,
    place: Sequence[ir.Value],
    factor: ir.Value,
    axis: int,
    partial: ir.Value,
) -> ir.Value:
    """The value so far, combined with a partial result."""
    type_ = parts.combine.results[0].type
    so_far = emit("memref.load", type_, parts.buffer, *place)
    inner = [*place[:axis], factor, *place[axis:]]
    other = emit("memref.load", type_, partial, *inner)
    sides = [so_far, other] if parts.old == 0 else [other, so_far]
    made = ir.Operation.create(
        parts.combine.name,
        results=[type_],
        operands=sides,
        attributes=edit.attributes_of(parts.combine),
    )
    return made.results[0]


def _partial_block(
    parts: _Reduction,
    loops: Sequence[ir.Operation],
    loop: ir.Operation,
    axis: int,
    partial: ir.Value,
    indices: Indices,
) -> ir.Operation:
    """The block that makes the partial results, where the old one stood."""
    block = parts.block
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
    for which in (0, 1):
        new = edit.open_region(made, which)
        old = block.regions[which].blocks[0]
        inner = dict(zip(values, map(indices.of, new.arguments), strict=True))
        _copy_region(old, new, inner, known, indices)
        _redirect_partial(new, parts.buffer, partial, axis, new.arguments[number])
    return made


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
        axis = Axis(kind, loop_bounds(indices, op)[1], f"v{tree.loop_name(op)}", dtype)
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
) -> None:
    mapping: dict[ir.Value, ir.Value] = {}
    with edit.point_before(edit.terminator(new)):
        for argument, value in zip(old.arguments, known, strict=True):
            assert not isinstance(value, str)
            mapping[argument] = indices.emit(substitute(value, inner))
        *operations, _ = old.operations
        for op in operations:
            rewriting.clone(op, mapping)


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
