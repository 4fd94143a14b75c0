"""The values of padding elements after a layout transformation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.prim_func_verifier import argument_symbols
from relax_mlir.dialects.tir import EvaluateOp
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.objects.write.prim_expr import PrimExprWriter
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import accesses, buffers, edit, legality, tree
from relax_mlir.tvm.tir.schedule.cache import to_storage_type
from relax_mlir.tvm.tir.schedule.decompose import iter_vars_of
from relax_mlir.tvm.tir.schedule.edit import IterVarSpec
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.new_axes import (
    iter_symbol,
    simplify_accesses,
    with_iter_vars,
)
from relax_mlir.tvm.tir.schedule.state import (
    ScheduleState,
    iter_extents,
    loop_bounds,
    loop_var,
)

__all__ = ["Layout", "Padding", "plan_padding"]


@dataclass(frozen=True)
class Layout:
    """A new layout with padding.

    Attributes:
        shape: the new shape.
        inverse: the inverse index map.
        padding: the padding predicate.
        value: the padding value in terms of the new indices.
        symbols: the names of variables in the PrimFunc.
    """

    shape: Sequence[Dim]
    inverse: IndexMap
    padding: PrimExpr
    value: IndexMap
    symbols: Symbols

    @property
    def names(self) -> list[str]:
        """The names of the new indices."""
        return [var.name for var in self.inverse.initial_indices]

    def writer(self, values: Sequence[ir.Value]) -> PrimExprWriter:
        """An expression writer with the new indices and the symbolic sizes bound to values."""
        found = PrimExprWriter()
        around = ir.InsertionPoint.current.block.owner.operation
        function = tree.function_of(around).opview
        assert isinstance(function, func.FuncOp)
        for size, name in argument_symbols(function).items():
            found.define(self.symbols.var(name), size)
        for var, value in zip(self.inverse.initial_indices, values, strict=True):
            found.define(var, value)
        return found

    def pad_term(self) -> PrimExpr:
        """The value of a padding element."""
        (value,) = self.value.map_indices(self.inverse.initial_indices)
        return value


@dataclass(frozen=True)
class Padding:
    """The plan for writing the padding of a new layout.

    Attributes:
        writers: the writers of the buffer, with the numbers of the spatial iter vars that
            index it if they cover all of it, else None.
    """

    scope: ir.Operation
    layout: Layout
    writers: Sequence[tuple[ir.Operation, Sequence[int] | None]]

    def fill(
        self,
        state: ScheduleState,
        buffer: ir.Value,
        symbols: Symbols,
        indices: IndexSymbols,
    ) -> None:
        """Write the padding of a buffer that has its new layout already."""
        if not self.writers:
            _assume(self.scope, buffer, self.layout, indices)
        elif any(numbers is None for _, numbers in self.writers):
            _add_block(self.scope, buffer, self.layout, self.writers, indices)
        else:
            for block, numbers in self.writers:
                assert numbers is not None
                _rewrite_writer(
                    state, block, numbers, buffer, self.layout, symbols, indices
                )


def plan_padding(scope: ir.Operation, buffer: ir.Value, layout: Layout) -> Padding:
    """Plans how to write the padding, while the buffer has its old layout."""
    found = accesses.writers_of(scope, buffer)
    return Padding(scope, layout, [(b, _covering_iters(b, buffer)) for b in found])


def _covering_iters(block: ir.Operation, buffer: ir.Value) -> list[int] | None:
    """The iter vars that index all accesses, if they cover the whole buffer.

    None for a block with other effects, such as one that reads the element of its previous
    instance: its iter domain stays.
    """
    listed = [op.name for op in tree.subtree(block)]
    if (
        accesses.inferred_writes(block) != [buffer]
        or EvaluateOp.OPERATION_NAME in listed
    ):
        return None
    indices = IndexSymbols()
    iters = [
        argument
        for region in block.regions
        for inner in region.blocks
        for argument in inner.arguments
    ]
    count = len(tree.iter_kinds(block))
    found: set[tuple[int, ...]] = set()
    for access in accesses.accesses_in(block):
        if access.buffer != buffer:
            continue
        if any(value not in iters for value in access.index_values):
            return None
        found.add(tuple(iters.index(v) % count for v in access.index_values))
    if len(found) != 1 or tree.predicate_of(block) is not None:
        return None
    if legality.loop_used_inside(block) is not None:
        return None
    numbers = list(found.pop())
    if any(tree.iter_kinds(block)[n] != "S" for n in numbers):
        return None
    extents = [iter_extents(indices, block)[n] for n in numbers]
    is_whole = extents == list(accesses.buffer_shape(buffer))
    return numbers if is_whole and _perfect_nest(block, numbers) else None


def _perfect_nest(block: ir.Operation, numbers: Sequence[int]) -> list[ir.Operation]:
    """The loops of some iter vars, if they are a perfect nest in order."""
    found: list[ir.Operation] = []
    loops = tree.enclosing_loops(block)
    extents = iter_extents(IndexSymbols(), block)
    for number in numbers:
        value = tree.bindings(block)[number]
        loop = next((o for o in loops if loop_var(o) == value), None)
        if loop is None or loop_bounds(IndexSymbols(), loop) != (0, extents[number]):
            return []
        found.append(loop)
    is_nest = all(tree.children(a) == [b] for a, b in pairwise(found))
    inside = loops[loops.index(found[0]) :] if found else []
    is_perfect = all(len(tree.children(loop)) == 1 for loop in inside)
    return found if is_nest and is_perfect else []


def _create_loops(
    layout: Layout,
    insertion_point: ir.InsertionPoint,
    dtype: str,
    indices: IndexSymbols,
) -> tuple[list[ir.Operation], ir.InsertionPoint]:
    """Creates loops over the new indices; returns them and the innermost insertion point."""
    loops: list[ir.Operation] = []
    for name, extent in zip(layout.names, layout.shape, strict=True):
        with insertion_point:
            attributes = edit.loop_attributes(name, dtype=dtype)
            loops.append(edit.make_loop(indices, extent, attributes))
        insertion_point = edit.insertion_point_before(
            edit.terminator(tree.body(loops[-1]))
        )
    return loops, insertion_point


def _create_block(
    layout: Layout, insertion_point: ir.InsertionPoint, name: str, indices: IndexSymbols
) -> tuple[ir.Operation, list[ir.Operation]]:
    """Creates an empty block over the new indices; returns it and its loops."""
    dtype = "int32"
    loops, insertion_point = _create_loops(layout, insertion_point, dtype, indices)
    pairs = zip(layout.names, layout.shape, strict=True)
    axes = [IterVarSpec("S", extent, f"v_{n}", dtype) for n, extent in pairs]
    with insertion_point:
        block = edit.make_block(name, axes, list(map(loop_var, loops)), indices.emit)
    edit.create_region(block, 1)
    return block, loops


def _assume(
    scope: ir.Operation, buffer: ir.Value, layout: Layout, indices: IndexSymbols
) -> None:
    """Creates a block with ``T.assume`` of the padding value, which the caller provides."""
    first = tree.children(scope)[0]
    name = f"buffer_{accesses.buffer_name(buffer)}_assumptions"
    block, _ = _create_block(layout, edit.insertion_point_before(first), name, indices)
    iter_values = list(tree.body(block).arguments)
    with edit.insertion_point_before(edit.terminator(tree.body(block))):
        writer = layout.writer(iter_values)
        element = BufferLoad(
            buffers.buffer_object(writer, buffer), layout.inverse.initial_indices
        )
        holds = prim.Or(prim.Not(layout.padding), prim.EQ(element, layout.pad_term()))
        value = writer.value(prim.Call("bool", "assume", [holds]))
        ir.Operation.create(EvaluateOp.OPERATION_NAME, operands=[value])
    edit.rematerialize_all(tree.function_of(scope))


def _add_block(
    scope: ir.Operation,
    buffer: ir.Value,
    layout: Layout,
    writers: Sequence[tuple[ir.Operation, Sequence[int] | None]],
    indices: IndexSymbols,
) -> None:
    """Creates a block after all writers that writes the padding."""
    statements = tree.children(scope)
    last = max(tree.statement_index(scope, b) for b, _ in writers)
    listed = [op.operation for op in own_operations(tree.body(scope))]
    following = listed[listed.index(statements[last]) + 1]
    name = f"buffer_{accesses.buffer_name(buffer)}_padding"
    block, loops = _create_block(
        layout, edit.insertion_point_before(following), name, indices
    )
    iter_values = list(tree.body(block).arguments)
    with edit.insertion_point_before(edit.terminator(tree.body(block))):
        value = to_storage_type(
            layout.writer(iter_values).value(layout.pad_term()), buffer
        )
        ir.Operation.create("memref.store", operands=[value, buffer, *iter_values])
    with edit.insertion_point_before(block):
        condition = layout.writer(list(map(loop_var, loops))).value(layout.padding)
        guard = edit.make_predicate(condition)
    block.move_before(edit.terminator(tree.body(guard)))
    edit.rematerialize_all(tree.function_of(scope))


def _rewrite_writer(
    state: ScheduleState,
    block: ir.Operation,
    numbers: Sequence[int],
    buffer: ir.Value,
    layout: Layout,
    symbols: Symbols,
    indices: IndexSymbols,
) -> None:
    """Change the iter domain of a block to the new indices, and select value or padding."""
    old_loops = _perfect_nest(block, numbers)
    dtype = tree.iter_var_dtypes(block)[numbers[0]]
    insertion_point = edit.insertion_point_before(old_loops[0])
    loops, insertion_point = _create_loops(layout, insertion_point, dtype, indices)
    edit.move_body(tree.body(old_loops[-1]), edit.terminator(tree.body(loops[-1])))
    axes, values, old = _new_iters(block, numbers, layout, loops, symbols, indices)
    made = with_iter_vars(state, block, axes, values, old, indices)
    state.erase(old_loops[0])
    first = min(numbers)
    for region in made.regions:
        for inner in region.blocks:
            iter_values = list(inner.arguments)[first : first + len(loops)]
            for access in accesses.accesses_in(inner):
                if access.buffer == buffer:
                    _set_indices(access, iter_values)
            _select_padding(inner, buffer, iter_values, layout)
    edit.rematerialize_all(made)
    simplify_accesses(made)


def _new_iters(
    block: ir.Operation,
    numbers: Sequence[int],
    layout: Layout,
    loops: Sequence[ir.Operation],
    symbols: Symbols,
    indices: IndexSymbols,
) -> tuple[list[IterVarSpec], list[Dim], list[Dim]]:
    """The new iter vars, their bindings, and the old iter vars in terms of them."""
    first = min(numbers)
    old_iters = iter_vars_of(block, indices)
    bindings = [indices.of(v) for v in tree.bindings(block)]
    dtype = old_iters[numbers[0]].dtype
    pairs = zip(layout.names, layout.shape, strict=True)
    added = [IterVarSpec("S", extent, f"v_{name}", dtype) for name, extent in pairs]
    kept = [n for n in range(len(old_iters)) if n not in numbers]
    before = [n for n in kept if n < first]
    axes = [old_iters[n] for n in before] + added
    values = [bindings[n] for n in before] + [indices.of(loop_var(o)) for o in loops]
    after = [n for n in kept if n > first]
    new_numbers = {n: i for i, n in enumerate(before)}
    new_numbers |= {n: len(axes) + i for i, n in enumerate(after)}
    for number, var in enumerate(layout.inverse.initial_indices):
        symbols.alias(var, iter_symbol(first + number))
    inverse = list(map(symbols.dim, layout.inverse.final_indices))
    old: list[Dim] = [
        inverse[numbers.index(n)]
        if n in numbers
        else dims.symbol(iter_symbol(new_numbers[n]))
        for n in range(len(old_iters))
    ]
    return (
        [*axes, *(old_iters[n] for n in after)],
        [*values, *(bindings[n] for n in after)],
        old,
    )


def _set_indices(access: accesses.Access, iter_values: Sequence[ir.Value]) -> None:
    first = 2 if access.is_write else 1
    for number, value in enumerate(iter_values):
        access.op.operands[first + number] = value


def _select_padding(
    region: ir.Block, buffer: ir.Value, iter_values: Sequence[ir.Value], layout: Layout
) -> None:
    """Replace the stored value by the padding value where the padding predicate holds."""
    for access in accesses.accesses_in(region):
        if not access.is_write or access.buffer != buffer:
            continue
        store = access.op
        producer = store.operands[0].owner
        is_bool = (
            buffers.element_dtype(buffer) == "bool"
            and not isinstance(producer, ir.Block)
            and producer.name == "arith.extui"
        )
        value = producer.operands[0] if is_bool else store.operands[0]
        with edit.insertion_point_before(store):
            writer = layout.writer(iter_values)
            made = ir.Operation.create(
                "scf.if",
                results=[value.type],
                operands=[writer.value(layout.padding)],
                regions=2,
            )
            with ir.InsertionPoint(ir.Block.create_at_start(made.regions[0], [])):
                pad = writer.value(layout.pad_term())
                pad = pad if is_bool else to_storage_type(pad, buffer)
                ir.Operation.create("scf.yield", operands=[pad])
            with ir.InsertionPoint(ir.Block.create_at_start(made.regions[1], [])):
                operations = _producers_of(value, store)
                mapping: dict[ir.Value, ir.Value] = {}
                for op in operations:
                    patterns.clone(op, mapping)
                ir.Operation.create("scf.yield", operands=[mapping.get(value, value)])
            chosen = made.results[0]
            store.operands[0] = to_storage_type(chosen, buffer) if is_bool else chosen
        if is_bool and not patterns.has_uses(producer.results[0]):
            patterns.erase(producer)
        for op in reversed(operations):
            if not any(patterns.has_uses(result) for result in op.operation.results):
                patterns.erase(op)


def _producers_of(value: ir.Value, store: ir.Operation) -> list[ir.OpView]:
    """The operations in front of a store that compute a value, in order."""
    wanted = {value}
    found: list[ir.OpView] = []
    preceding: list[ir.OpView] = []
    for op in own_operations(store.block):
        if op.operation == store:
            break
        preceding.append(op)
    for op in reversed(preceding):
        if any(result in wanted for result in op.operation.results):
            found.append(op)
            wanted.update(
                v for inner in tree.subtree(op.operation) for v in inner.operands
            )
    return found[::-1]
