"""What stands in the elements that a new layout of a buffer adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlir import ir
from mlir.dialects import func

from relax_mlir import rewriting
from relax_mlir.dialects import dims
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir import EvaluateOp
from relax_mlir.objects import prim
from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.programs import argument_symbols
from relax_mlir.tir.schedule import accesses, buffers, edit, legality, tree
from relax_mlir.tir.schedule.cache import as_stored
from relax_mlir.tir.schedule.decompose import axes_of
from relax_mlir.tir.schedule.edit import Axis
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.new_axes import axis_symbol, simplify_accesses, with_axes
from relax_mlir.tir.schedule.state import (
    ScheduleState,
    extents_of,
    loop_bounds,
    loop_var,
)
from relax_mlir.traversal import own_operations

__all__ = ["Layout", "Padding", "plan_padding"]


@dataclass(frozen=True)
class Layout:
    """A new layout that has more elements than the old one.

    Attributes:
        shape: the new shape.
        inverse: the old indices in terms of the new ones.
        padding: where the elements are that were added.
        value: what stands there, in terms of the new indices.
        symbols: what the variables of all terms are called in the program.
    """

    shape: Sequence[Dim]
    inverse: IndexMap
    padding: PrimExpr
    value: IndexMap
    symbols: Symbols

    @property
    def names(self) -> list[str]:
        """What the new indices are called."""
        return [var.name for var in self.inverse.initial_indices]

    def terms(self, values: Sequence[ir.Value]) -> TermWriter:
        """A writer of terms on new indices that have these values, and on sizes."""
        found = TermWriter()
        around = ir.InsertionPoint.current.block.owner.operation
        program = tree.function_of(around).opview
        assert isinstance(program, func.FuncOp)
        for size, name in argument_symbols(program).items():
            found.define(self.symbols.var(name), size)
        for var, value in zip(self.inverse.initial_indices, values, strict=True):
            found.define(var, value)
        return found

    def pad_term(self) -> PrimExpr:
        """The value of an element that was added."""
        (value,) = self.value.map_indices(self.inverse.initial_indices)
        return value


@dataclass(frozen=True)
class Padding:
    """How the elements that a layout adds get their value.

    Attributes:
        scope: the block whose blocks access the buffer.
        writers: who writes the buffer, with the numbers of the spatial axes that are its
            indices, where they go over all of it; no numbers for others.
    """

    scope: ir.Operation
    layout: Layout
    writers: Sequence[tuple[ir.Operation, Sequence[int] | None]]

    def fill(
        self, state: ScheduleState, buffer: ir.Value, symbols: Symbols, indices: Indices
    ) -> None:
        """Give them their value; the buffer has its new layout already."""
        if not self.writers:
            _assume(self.scope, buffer, self.layout, indices)
        elif any(numbers is None for _, numbers in self.writers):
            _add_block(self.scope, buffer, self.layout, self.writers, indices)
        else:
            for block, numbers in self.writers:
                assert numbers is not None
                _rewrite(state, block, numbers, buffer, self.layout, symbols, indices)


def plan_padding(scope: ir.Operation, buffer: ir.Value, layout: Layout) -> Padding:
    """Find out how to fill the padding, while the buffer has its old layout."""
    found = accesses.writers_of(scope, buffer)
    return Padding(scope, layout, [(b, _whole_axes(b, buffer)) for b in found])


def _whole_axes(block: ir.Operation, buffer: ir.Value) -> list[int] | None:
    """The axes that are the indices of all accesses, if they go over the whole buffer.

    A block that does something else has none, as one that reads the element that its last
    point wrote: it goes over its old axes.
    """
    listed = [op.name for op in tree.subtree(block)]
    if accesses.writes(block) != [buffer] or EvaluateOp.OPERATION_NAME in listed:
        return None
    indices = Indices()
    axes = [
        argument
        for region in block.regions
        for inner in region.blocks
        for argument in inner.arguments
    ]
    count = len(tree.kinds_of(block))
    found: set[tuple[int, ...]] = set()
    for access in accesses.accesses_in(block):
        if access.buffer != buffer:
            continue
        if any(value not in axes for value in access.index_values):
            return None
        found.add(tuple(axes.index(v) % count for v in access.index_values))
    if len(found) != 1 or tree.guard_of(block) is not None:
        return None
    if legality.loop_used_inside(block) is not None:
        return None
    numbers = list(found.pop())
    if any(tree.kinds_of(block)[n] != "S" for n in numbers):
        return None
    extents = [extents_of(indices, block)[n] for n in numbers]
    is_whole = extents == list(accesses.buffer_shape(buffer))
    return numbers if is_whole and _nest(block, numbers) else None


def _nest(block: ir.Operation, numbers: Sequence[int]) -> list[ir.Operation]:
    """The loops of some axes, if they are nested in order with nothing between."""
    found: list[ir.Operation] = []
    loops = tree.enclosing_loops(block)
    extents = extents_of(Indices(), block)
    for number in numbers:
        value = tree.bindings(block)[number]
        loop = next((o for o in loops if loop_var(o) == value), None)
        if loop is None or loop_bounds(Indices(), loop) != (0, extents[number]):
            return []
        found.append(loop)
    is_nest = all(tree.children(a) == [b] for a, b in pairwise(found))
    inside = loops[loops.index(found[0]) :] if found else []
    is_alone = all(len(tree.children(loop)) == 1 for loop in inside)
    return found if is_nest and is_alone else []


def _grid(
    layout: Layout, place: ir.InsertionPoint, dtype: str, indices: Indices
) -> tuple[list[ir.Operation], ir.InsertionPoint]:
    """Loops over the new indices; where they end."""
    loops: list[ir.Operation] = []
    for name, extent in zip(layout.names, layout.shape, strict=True):
        with place:
            attributes = edit.loop_attributes(name, dtype=dtype)
            loops.append(edit.make_loop(indices, extent, attributes))
        place = edit.point_before(edit.terminator(tree.body(loops[-1])))
    return loops, place


def _grid_block(
    layout: Layout, place: ir.InsertionPoint, name: str, indices: Indices
) -> tuple[ir.Operation, list[ir.Operation]]:
    """An empty block over the new indices, and its loops."""
    dtype = "int32"
    loops, place = _grid(layout, place, dtype, indices)
    pairs = zip(layout.names, layout.shape, strict=True)
    axes = [Axis("S", extent, f"v_{n}", dtype) for n, extent in pairs]
    with place:
        block = edit.make_block(name, axes, list(map(loop_var, loops)), indices.emit)
    edit.open_region(block, 1)
    return block, loops


def _assume(
    scope: ir.Operation, buffer: ir.Value, layout: Layout, indices: Indices
) -> None:
    """A block that says what whoever brings the buffer has put there."""
    first = tree.children(scope)[0]
    name = f"buffer_{accesses.buffer_name(buffer)}_assumptions"
    block, _ = _grid_block(layout, edit.point_before(first), name, indices)
    points = list(tree.body(block).arguments)
    with edit.point_before(edit.terminator(tree.body(block))):
        terms = layout.terms(points)
        element = BufferLoad(
            buffers.buffer_term(terms, buffer), layout.inverse.initial_indices
        )
        holds = prim.Or(prim.Not(layout.padding), prim.EQ(element, layout.pad_term()))
        value = terms.value(prim.Call("bool", "assume", [holds]))
        ir.Operation.create(EvaluateOp.OPERATION_NAME, operands=[value])
    edit.localise(tree.function_of(scope))


def _add_block(
    scope: ir.Operation,
    buffer: ir.Value,
    layout: Layout,
    writers: Sequence[tuple[ir.Operation, Sequence[int] | None]],
    indices: Indices,
) -> None:
    """A block behind all writers that writes the padding."""
    statements = tree.children(scope)
    last = max(tree.position_in(scope, b) for b, _ in writers)
    listed = [op.operation for op in own_operations(tree.body(scope))]
    behind = listed[listed.index(statements[last]) + 1]
    name = f"buffer_{accesses.buffer_name(buffer)}_padding"
    block, loops = _grid_block(layout, edit.point_before(behind), name, indices)
    points = list(tree.body(block).arguments)
    with edit.point_before(edit.terminator(tree.body(block))):
        value = as_stored(layout.terms(points).value(layout.pad_term()), buffer)
        ir.Operation.create("memref.store", operands=[value, buffer, *points])
    with edit.point_before(block):
        condition = layout.terms(list(map(loop_var, loops))).value(layout.padding)
        guard = edit.make_guard(condition)
    block.move_before(edit.terminator(tree.body(guard)))
    edit.localise(tree.function_of(scope))


def _rewrite(
    state: ScheduleState,
    block: ir.Operation,
    numbers: Sequence[int],
    buffer: ir.Value,
    layout: Layout,
    symbols: Symbols,
    indices: Indices,
) -> None:
    """Let a block go over the new indices, and choose between its value and padding."""
    old_loops = _nest(block, numbers)
    dtype = tree.axis_dtypes(block)[numbers[0]]
    place = edit.point_before(old_loops[0])
    loops, place = _grid(layout, place, dtype, indices)
    edit.move_body(tree.body(old_loops[-1]), edit.terminator(tree.body(loops[-1])))
    axes, values, old = _new_axes(block, numbers, layout, loops, symbols, indices)
    made = with_axes(state, block, axes, values, old, indices)
    state.erase(old_loops[0])
    first = min(numbers)
    for region in made.regions:
        for inner in region.blocks:
            points = list(inner.arguments)[first : first + len(loops)]
            for access in accesses.accesses_in(inner):
                if access.buffer == buffer:
                    _set_indices(access, points)
            _choose(inner, buffer, points, layout)
    edit.localise(made)
    simplify_accesses(made)


def _new_axes(
    block: ir.Operation,
    numbers: Sequence[int],
    layout: Layout,
    loops: Sequence[ir.Operation],
    symbols: Symbols,
    indices: Indices,
) -> tuple[list[Axis], list[Dim], list[Dim]]:
    """The axes with the new ones in place of some; their values; and the old in those."""
    first = min(numbers)
    known = axes_of(block, indices)
    bound = [indices.of(v) for v in tree.bindings(block)]
    dtype = known[numbers[0]].dtype
    pairs = zip(layout.names, layout.shape, strict=True)
    added = [Axis("S", extent, f"v_{name}", dtype) for name, extent in pairs]
    kept = [n for n in range(len(known)) if n not in numbers]
    ahead = [n for n in kept if n < first]
    axes = [known[n] for n in ahead] + added
    values = [bound[n] for n in ahead] + [indices.of(loop_var(o)) for o in loops]
    behind = [n for n in kept if n > first]
    places = {n: i for i, n in enumerate(ahead)}
    places |= {n: len(axes) + i for i, n in enumerate(behind)}
    for number, var in enumerate(layout.inverse.initial_indices):
        symbols.alias(var, axis_symbol(first + number))
    back = list(map(symbols.dim, layout.inverse.final_indices))
    old: list[Dim] = [
        back[numbers.index(n)] if n in numbers else dims.symbol(axis_symbol(places[n]))
        for n in range(len(known))
    ]
    return (
        [*axes, *(known[n] for n in behind)],
        [*values, *(bound[n] for n in behind)],
        old,
    )


def _set_indices(access: accesses.Access, points: Sequence[ir.Value]) -> None:
    first = 2 if access.is_write else 1
    for number, point in enumerate(points):
        access.op.operands[first + number] = point


def _choose(
    region: ir.Block, buffer: ir.Value, points: Sequence[ir.Value], layout: Layout
) -> None:
    """Let stores to the buffer store the padding where that is."""
    for access in accesses.accesses_in(region):
        if not access.is_write or access.buffer != buffer:
            continue
        store = access.op
        held = store.operands[0].owner
        is_truth = (
            buffers.element_dtype(buffer) == "bool"
            and not isinstance(held, ir.Block)
            and held.name == "arith.extui"
        )
        value = held.operands[0] if is_truth else store.operands[0]
        with edit.point_before(store):
            terms = layout.terms(points)
            made = ir.Operation.create(
                "scf.if",
                results=[value.type],
                operands=[terms.value(layout.padding)],
                regions=2,
            )
            with ir.InsertionPoint(ir.Block.create_at_start(made.regions[0], [])):
                pad = terms.value(layout.pad_term())
                pad = pad if is_truth else as_stored(pad, buffer)
                ir.Operation.create("scf.yield", operands=[pad])
            with ir.InsertionPoint(ir.Block.create_at_start(made.regions[1], [])):
                operations = _computing(value, store)
                mapping: dict[ir.Value, ir.Value] = {}
                for op in operations:
                    rewriting.clone(op, mapping)
                ir.Operation.create("scf.yield", operands=[mapping.get(value, value)])
            chosen = made.results[0]
            store.operands[0] = as_stored(chosen, buffer) if is_truth else chosen
        if is_truth and not rewriting.has_uses(held.results[0]):
            rewriting.erase(held)
        for op in reversed(operations):
            if not any(rewriting.has_uses(result) for result in op.operation.results):
                rewriting.erase(op)


def _computing(value: ir.Value, store: ir.Operation) -> list[ir.OpView]:
    """The operations in front of a store that compute a value, in order."""
    wanted = {value}
    found: list[ir.OpView] = []
    ahead: list[ir.OpView] = []
    for op in own_operations(store.block):
        if op.operation == store:
            break
        ahead.append(op)
    for op in reversed(ahead):
        if any(result in wanted for result in op.operation.results):
            found.append(op)
            wanted.update(
                v for inner in tree.subtree(op.operation) for v in inner.operands
            )
    return found[::-1]
