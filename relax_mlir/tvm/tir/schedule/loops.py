"""Loop primitives: split, fuse, merge, partition, reorder and unit loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic import dims
from relax_mlir.symbolic.bounds import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.symbols import symbols_of
from relax_mlir.tvm.tir.schedule import (
    accesses,
    dependences,
    edit,
    legality,
    predicates,
    tree,
)
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.refresh import simplify_operands
from relax_mlir.tvm.tir.schedule.state import ScheduleState, loop_bounds, loop_var

__all__ = ["add_unit_loop", "fuse", "merge", "partition", "reorder", "split"]


def _check_plain(loop: ir.Operation, where: str) -> None:
    """Reject loops that are thread-bound, annotated, or do not start at 0."""
    name = tree.describe(loop)
    if tree.string_attr(loop, attribute_names.THREAD):
        raise ScheduleError(
            f"{where}: {name} is bound to `{tree.string_attr(loop, attribute_names.THREAD)}`: "
            "expected a loop without thread binding"
        )
    if tree.annotations_of(loop):
        raise ScheduleError(f"{where}: {name} has annotations: expected none")
    start, _ = loop_bounds(IndexSymbols(), loop)
    if start != 0:
        raise ScheduleError(f"{where}: {name} starts at {start}: expected 0")


def split(
    state: ScheduleState,
    loop: ir.Operation,
    factors: Sequence[Dim | None],
    *,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[ir.Operation]:
    """Split a loop into a nest; see :meth:`Schedule.split`."""
    _check_plain(loop, "split")
    with state.change(loop) as indices:
        _, extent = loop_bounds(indices, loop)
        sizes = _sizes(loop, extent, factors)
        return _split(
            state,
            loop,
            extent,
            sizes,
            indices,
            keep_units=preserve_unit_iters,
            disable_predication=disable_predication,
        )


def _sizes(loop: ir.Operation, extent: Dim, factors: Sequence[Dim | None]) -> list[Dim]:
    name = f"split: {tree.describe(loop)}"
    if list(factors).count(None) > 1:
        raise ScheduleError(f"{name}: expected at most one factor that is None")
    product: Dim = 1
    for factor in factors:
        if isinstance(factor, int) and factor <= 0:
            raise ScheduleError(f"{name}: expected factors above 0, got {factor}")
        product = product * (1 if factor is None else factor)
    if isinstance(product, int) and product >= 1 << 63:
        raise ScheduleError(
            f"{name}: the product of the factors, {product}, exceeds 64-bit indices"
        )
    if None in factors:
        rest = dims.ceildiv(extent, product)
        return [rest if factor is None else factor for factor in factors]
    sizes = [f for f in factors if f is not None]
    low = bounds(extent - product)[0]
    if low is not None and low > 0:
        raise ScheduleError(
            f"{name}: the product of the factors, {product}, is less than the extent, "
            f"{extent}"
        )
    return sizes


def _split(
    state: ScheduleState,
    loop: ir.Operation,
    extent: Dim,
    sizes: Sequence[Dim],
    indices: IndexSymbols,
    *,
    keep_units: bool,
    disable_predication: bool,
) -> list[ir.Operation]:
    name, dtype = tree.loop_name(loop), tree.string_attr(loop, attribute_names.DTYPE)
    made: list[ir.Operation] = []
    insertion_point = edit.insertion_point_before(loop)
    for number, size in enumerate(sizes):
        attributes = edit.loop_attributes(f"{name}_{number}", dtype=dtype)
        with insertion_point:
            made.append(edit.make_loop(indices, size, attributes))
        insertion_point = edit.insertion_point_before(
            edit.terminator(tree.body(made[-1]))
        )
    inner = edit.terminator(tree.body(made[-1]))
    value: Dim = 0
    for op, size in zip(made, sizes, strict=True):
        value = value * size + indices.of(loop_var(op))
    with ir.InsertionPoint(inner):
        number = indices.emit(value)
    loop_var(loop).replace_all_uses_with(number)
    edit.move_body(tree.body(loop), inner)
    state.erase(loop)
    bound = predicates.Condition("lt", value, extent)
    if not disable_predication and legality.unproved_conditions(
        [bound], indices, made[-1]
    ):
        _check_blocks_read(made[-1])
        _append_condition(made[-1], bound, indices)
    simplify_operands(made[0], keep_units=keep_units)
    return made


def _check_blocks_read(loop: ir.Operation) -> None:
    """Reject loads in predicates and bounds, which a block predicate does not guard."""
    scope = tree.scope_of(loop)
    for access in accesses.accesses_in(loop):
        if tree.scope_of(access.op) == scope:
            raise ScheduleError(
                f"split: a predicate or a bound in {tree.describe(loop)} reads "
                f"`{accesses.buffer_name(access.buffer)}`: expected factors whose product "
                "is the extent"
            )


def _append_condition(
    loop: ir.Operation, bound: predicates.Condition, indices: IndexSymbols
) -> None:
    """Add a condition to the predicates of all blocks below a loop."""
    for block in tree.blocks_below(loop):
        known = predicates.block_conditions(block, indices)
        predicates.set_predicate(block, [*known, bound], indices)


def fuse(
    state: ScheduleState, loops: Sequence[ir.Operation], *, preserve_unit_iters: bool
) -> ir.Operation:
    """Fuse a loop nest into one loop; see :meth:`Schedule.fuse`."""
    for loop in loops:
        _check_plain(loop, "fuse")
    for outer, inner in pairwise(loops):
        _check_nested(outer, inner)
    with state.change(loops[0]) as indices:
        extents = _independent_extents(loops, indices)
        return _fuse(state, loops, extents, indices, keep_units=preserve_unit_iters)


def _check_nested(outer: ir.Operation, inner: ir.Operation) -> None:
    if tree.parent_of(inner) != outer:
        raise ScheduleError(
            f"fuse: {tree.describe(inner)} is not directly inside "
            f"{tree.describe(outer)}: expected loops in order, each the body of the one "
            "before"
        )
    if tree.children(outer) != [inner]:
        raise ScheduleError(
            f"fuse: {tree.describe(inner)} is not the only statement in "
            f"{tree.describe(outer)}"
        )


def _independent_extents(
    loops: Sequence[ir.Operation], indices: IndexSymbols
) -> list[Dim]:
    outer: set[str] = set()
    extents: list[Dim] = []
    for loop in loops:
        _, extent = loop_bounds(indices, loop)
        if outer & set(symbols_of(extent)):
            raise ScheduleError(
                f"fuse: the extent of {tree.describe(loop)} depends on a loop that it is "
                "fused with"
            )
        outer.add(indices.symbol(loop_var(loop)))
        extents.append(extent)
    return extents


def _fuse(
    state: ScheduleState,
    loops: Sequence[ir.Operation],
    extents: Sequence[Dim],
    indices: IndexSymbols,
    *,
    keep_units: bool,
) -> ir.Operation:
    name = "_".join(map(tree.loop_name, loops)) + "_fused"
    total: Dim = 1
    for extent in extents:
        total = total * extent
    dtypes = {tree.string_attr(loop, attribute_names.DTYPE) for loop in loops}
    with edit.insertion_point_before(loops[0]):
        dtype = "int64" if "int64" in dtypes else ""
        made = edit.make_loop(indices, total, edit.loop_attributes(name, dtype=dtype))
    inner = edit.terminator(tree.body(made))
    rest, stride = indices.of(loop_var(made)), 1
    for number in reversed(range(len(loops))):
        value = dims.floordiv(
            dims.mod(rest, stride * extents[number]) if number else rest, stride
        )
        with ir.InsertionPoint(inner):
            loop_var(loops[number]).replace_all_uses_with(indices.emit(value))
        stride = stride * extents[number]
    edit.move_body(tree.body(loops[-1]), inner)
    state.erase(loops[0])
    simplify_operands(made, keep_units=keep_units)
    return made


def reorder(state: ScheduleState, loops: Sequence[ir.Operation]) -> None:
    """Reorder loops of a nest; see :meth:`Schedule.reorder`."""
    if len(set(loops)) != len(loops):
        raise ScheduleError("reorder: a loop is given twice: expected each once")
    if len(loops) <= 1:
        return
    chain = _chain(loops)
    in_new_order = iter(loops)
    order = [next(in_new_order) if loop in loops else loop for loop in chain]
    _check_reorder(chain, order)
    if order != chain:
        dependences.check_loop_order(chain, order, "reorder")
    with state.change(chain[0]):
        _reorder(chain, order)


def _chain(loops: Sequence[ir.Operation]) -> list[ir.Operation]:
    """All loops from the outermost to the innermost of given ones."""
    depths = [len(list(tree.ancestors(loop))) for loop in loops]
    innermost = loops[depths.index(max(depths))]
    around = [*tree.enclosing_loops(innermost), innermost]
    for loop in loops:
        if loop not in around:
            raise ScheduleError(
                f"reorder: {tree.describe(loop)} and {tree.describe(innermost)} are not in "
                "one nest: expected nested loops, in one block"
            )
    first = min(around.index(loop) for loop in loops)
    chain = around[first:]
    for outer, inner in pairwise(chain):
        if tree.children(outer) != [inner]:
            raise ScheduleError(
                f"reorder: {tree.describe(outer)} contains more than "
                f"{tree.describe(inner)}: expected a perfect nest"
            )
    return chain


def _check_reorder(
    chain: Sequence[ir.Operation], order: Sequence[ir.Operation]
) -> None:
    indices = IndexSymbols()
    outer_symbols: set[str] = set()
    names = {indices.symbol(loop_var(loop)) for loop in chain}
    for loop in order:
        used = {n for v in list(loop.operands)[:2] for n in symbols_of(indices.of(v))}
        if used & names - outer_symbols:
            raise ScheduleError(
                f"reorder: the bounds of {tree.describe(loop)} depend on a loop that "
                "would be inside it"
            )
        outer_symbols.add(indices.symbol(loop_var(loop)))
    for block in tree.blocks_below(chain[-1]):
        if set(tree.iter_kinds(block)) - {"S", "R"}:
            raise ScheduleError(
                f"reorder: {tree.describe(block)} has iter vars that are neither spatial nor "
                "reduce ones"
            )
        may_overlap = "R" not in tree.iter_kinds(block)
        if not may_overlap:
            _check_not_repeated(chain, block, indices)
            _check_initialises_first(chain, order, block, indices)
        if not legality.has_affine_bindings(
            block, below=chain[0], may_overlap=may_overlap
        ):
            raise ScheduleError(
                f"reorder: the bindings of {tree.describe(block)} are not quasi-affine "
                "in the loops that are reordered"
            )


def _check_not_repeated(
    chain: Sequence[ir.Operation], block: ir.Operation, indices: IndexSymbols
) -> None:
    """Reject loops that restart a reduction: in another order, it would continue instead."""
    bound_symbols = {n for v in tree.bindings(block) for n in symbols_of(indices.of(v))}
    for loop in chain:
        repeats = indices.symbol(loop_var(loop)) not in bound_symbols
        if repeats and loop_bounds(indices, loop)[1] != 1:
            raise ScheduleError(
                f"reorder: {tree.describe(loop)} repeats {tree.describe(block)}, which "
                "has a reduce axis: expected loops bound to its iter vars"
            )


def _check_initialises_first(
    chain: Sequence[ir.Operation],
    order: Sequence[ir.Operation],
    block: ir.Operation,
    indices: IndexSymbols,
) -> None:
    """Reject reordering loops that bind both spatial and reduce iter vars.

    The first reduce instance, which initialises the accumulator, may then not come first.
    """
    around = {indices.symbol(loop_var(o)) for o in tree.enclosing_loops(block)}
    groups: list[
        tuple[set[str], set[str]]
    ] = []  # kinds and loops of connected iter vars
    for kind, value in zip(tree.iter_kinds(block), tree.bindings(block), strict=True):
        kinds, used = {kind}, around.intersection(symbols_of(indices.of(value)))
        joined = [g for g in groups if g[1] & used]
        groups = [g for g in groups if g not in joined]
        groups.append(
            (kinds.union(*(k for k, _ in joined)), used.union(*(u for _, u in joined)))
        )
    for kinds, used in groups:
        before, after = (
            [o for o in loops if indices.symbol(loop_var(o)) in used]
            for loops in (chain, order)
        )
        if len(kinds) > 1 and before != after:
            raise ScheduleError(
                f"reorder: {tree.describe(before[0])} and others are bound to both spatial "
                f"and reduce axes of {tree.describe(block)}: expected that those keep "
                "their order"
            )


def _reorder(chain: Sequence[ir.Operation], order: Sequence[ir.Operation]) -> None:
    """Unnest the loops in front of the outermost one, then nest them in the new order."""
    contents = tree.body(chain[-1])
    end = edit.terminator(contents)
    body_ops = [op.operation for op in own_operations(contents) if op.operation != end]
    for loop in reversed(chain[1:]):
        edit.move_before(loop, chain[0])
    for outer, inner in pairwise(order):
        edit.move_before(inner, edit.terminator(tree.body(outer)))
    target = edit.terminator(tree.body(order[-1]))
    for op in body_ops:
        op.move_before(target)
    simplify_operands(order[0])


def add_unit_loop(state: ScheduleState, op: ir.Operation) -> ir.Operation:
    """Add a loop of extent 1 around a statement; see :meth:`Schedule.add_unit_loop`."""
    if tree.is_function(op):
        raise ScheduleError("add_unit_loop: expected a loop or a block, got the root")
    with state.change(op) as indices:
        inner = tree.realize_of(op) if tree.is_block(op) else op
        with edit.insertion_point_before(inner):
            made = edit.make_loop(indices, 1, edit.loop_attributes("u"))
        edit.move_before(inner, edit.terminator(tree.body(made)))
        return made


def merge(state: ScheduleState, loops: Sequence[ir.Operation]) -> ir.Operation:
    """Fuse sibling loop nests into one; see :meth:`Schedule.merge`."""
    nests = _nests(loops)
    _check_equal_extents(nests)
    outermost = [nest[0] for nest in nests]
    siblings = tree.statements(outermost[0].block)
    first = siblings.index(outermost[0])
    if siblings[first : first + len(outermost)] != outermost:
        raise ScheduleError("merge: expected consecutive loops, in order")
    dependences.check_fusion(nests, "merge")
    with state.change(outermost[0]) as indices:
        made: list[ir.Operation] = []
        insertion_point = edit.insertion_point_before(outermost[0])
        for loop in nests[0]:
            attributes = edit.loop_attributes(tree.loop_name(loop) + "_m")
            _, extent = loop_bounds(indices, loop)
            with insertion_point:
                made.append(edit.make_loop(indices, extent, attributes))
            insertion_point = edit.insertion_point_before(
                edit.terminator(tree.body(made[-1]))
            )
        end = edit.terminator(tree.body(made[-1]))
        for nest in nests:
            for old, new in zip(nest, made, strict=True):
                loop_var(old).replace_all_uses_with(loop_var(new))
            edit.move_body(tree.body(nest[-1]), end)
            state.erase(nest[0])
        simplify_operands(made[0])
        return made[-1]


def _nests(loops: Sequence[ir.Operation]) -> list[list[ir.Operation]]:
    """Each loop with its ancestors, outermost first, below their common ancestor."""
    paths = [[*reversed(list(tree.ancestors(loop))), loop] for loop in loops]
    depth = 0
    while all(len(a) > depth + 1 and a[depth] == paths[0][depth] for a in paths):
        depth += 1
    nests = [a[depth:] for a in paths]
    for nest in nests:
        for outer, inner in pairwise(nest):
            if not tree.is_loop(outer) or tree.children(outer) != [inner]:
                raise ScheduleError(
                    f"merge: {tree.describe(inner)} is not the only statement in "
                    f"{tree.describe(outer)}: expected perfect nests"
                )
        for loop in nest:
            _check_plain(loop, "merge")
    return nests


def _check_equal_extents(nests: Sequence[Sequence[ir.Operation]]) -> None:
    """Reject nests of different depths or extents."""
    indices, first = IndexSymbols(), nests[0]
    extents = [loop_bounds(indices, loop)[1] for loop in first]
    for nest in nests[1:]:
        if len(nest) != len(first):
            raise ScheduleError(
                f"merge: {tree.describe(nest[-1])} and {tree.describe(first[-1])} are at "
                "different depths: expected the same level"
            )
        for loop, other, extent in zip(nest, first, extents, strict=True):
            if loop_bounds(indices, loop)[1] != extent:
                raise ScheduleError(
                    f"merge: {tree.describe(loop)} has extent "
                    f"{loop_bounds(indices, loop)[1]}: expected {extent}, as "
                    f"{tree.describe(other)} has"
                )


def partition(
    state: ScheduleState, loop: ir.Operation, factors: Sequence[int | None]
) -> list[ir.Operation]:
    """Partition a loop into consecutive loops; see :meth:`Schedule.loop_partition`."""
    _check_plain(loop, "loop_partition")
    _, extent = loop_bounds(IndexSymbols(), loop)
    sizes = list(factors) if None in factors else [*factors, None]
    known = [f for f in sizes if f is not None]
    if any(f <= 0 for f in known) or len(known) + 1 != len(sizes):
        raise ScheduleError(
            "loop_partition: expected factors above 0, at most one of them None, got "
            f"{list(factors)}"
        )
    if not isinstance(extent, int) or sum(known) >= extent:
        raise ScheduleError(
            f"loop_partition: {tree.describe(loop)} has extent {extent}: expected a constant "
            f"greater than the sum of the factors {known}"
        )
    for block in tree.blocks_below(loop):
        _check_initialised_once(loop, block)
    rest = extent - sum(known)
    ends = list(accumulate(rest if f is None else f for f in sizes))
    with state.change(loop):
        return _partition(state, loop, ends)


def _check_initialised_once(loop: ir.Operation, block: ir.Operation) -> None:
    """Reject partitioned reductions, each part of which would initialise again."""
    indices = IndexSymbols()
    used = {
        name
        for value, kind in zip(
            tree.bindings(block), tree.iter_kinds(block), strict=True
        )
        if kind != "S"
        for name in symbols_of(indices.of(value))
    }
    has_init = tree.init_block_of(block) is not None
    if has_init and indices.symbol(loop_var(loop)) in used:
        raise ScheduleError(
            f"loop_partition: {tree.describe(loop)} is part of a reduce axis of "
            f"{tree.describe(block)}, which has an init block. Hint: apply "
            "`decompose_reduction` first"
        )


def _partition(
    state: ScheduleState, loop: ir.Operation, ends: Sequence[int]
) -> list[ir.Operation]:
    """Creates the parts, each in an opaque block, all of them in a common one."""
    name, start = tree.loop_name(loop), 0
    found = tree.blocks_below(loop)
    block_name = tree.block_name(found[0]) if found else ""
    made: list[ir.Operation] = []
    with edit.insertion_point_before(loop):
        common = edit.make_opaque_block(f"{block_name}_{name}_common")
    for number, end in enumerate(ends):
        with edit.insertion_point_before(edit.terminator(tree.body(common))):
            outer = edit.make_opaque_block(f"{block_name}_{name}{number}_partition")
        with edit.insertion_point_before(edit.terminator(tree.body(outer))):
            attributes = edit.loop_attributes(f"{name}{number}")
            part = edit.make_loop(IndexSymbols(), end - start, attributes, start)
        _clone_body(loop, part)
        for inner in tree.blocks_below(part):
            renamed = f"{tree.block_name(inner)}_{name}{number}"
            inner.attributes["name"] = ir.StringAttr.get(renamed)
            _restrict_iters(inner, part, start, end)
        made.append(part)
        start = end
    state.erase(loop)
    for part in made:
        simplify_operands(part)
    return made


def _clone_body(loop: ir.Operation, part: ir.Operation) -> None:
    """Clones the body of a loop into a part of it."""
    copies = {loop_var(loop): loop_var(part)}
    with edit.insertion_point_before(edit.terminator(tree.body(part))):
        *operations, _ = own_operations(tree.body(loop))
        for op in operations:
            patterns.clone(op, copies)


def _restrict_iters(
    block: ir.Operation, loop: ir.Operation, start: int, end: int
) -> None:
    """Restrict iter vars bound to the loop to the range of the part."""
    sizes = list(ir.DenseI64ArrayAttr(block.attributes["static_extents"]))
    starts = tree.iter_var_mins(block)
    for number, value in enumerate(tree.bindings(block)):
        if value == loop_var(loop) and sizes[number] >= 0:
            sizes[number], starts[number] = end - start, start
    block.attributes["static_extents"] = ir.DenseI64ArrayAttr.get(sizes)
    if any(s != 0 for s in starts):
        block.attributes[attribute_names.AXIS_STARTS] = tensors.shape_attr(starts)
