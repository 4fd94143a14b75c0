"""``tir-collapse-loops``: collapses perfect loop nests into the iteration domains of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of, determine_axes
from relax_mlir.analysis.prim_func_verifier import argument_symbols
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.effects import is_scalar_arithmetic
from relax_mlir.passes.tir.expand_intrinsics import expand_intrinsics, is_expandable
from relax_mlir.passes.tir.loop_nests import (
    create_grid,
    erase_unused,
    move_body,
    rematerialize,
    size_expression,
)
from relax_mlir.rewrite.patterns import Pass, replace

__all__ = ["CollapseLoops"]


@dataclass(frozen=True)
class CollapseLoops(Pass):
    """Replace loop nests of unscheduled programs by blocks over whole iteration domains.

    A program is collapsed if it consists of buffers and plain loop nests: serial loops from 0,
    perfectly nested, with one block inside and one axis per loop, whose order does not matter.
    Such programs can be fused and scheduled; others keep their loops.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if function_attributes.is_defined_prim_func(function):
                _collapse(function)


def _collapse(function: func.FuncOp) -> None:
    symbols = argument_symbols(function)
    nests: list[_Nest] = []
    *operations, _ = own_operations(function.entry_block)
    for op in operations:
        if op.operation.name == "scf.for":
            nest = _nest(op, symbols)
            if nest is None:
                return
            nests.append(nest)
        elif not (
            is_scalar_arithmetic(op) or isinstance(op, AllocBufferOp) or _is_grid(op)
        ):
            return
    for nest in nests:
        nest.collapse()
    if nests:
        erase_unused(function.entry_block)


def _is_grid(op: ir.OpView) -> bool:
    return isinstance(op, BlockOp) and not len(op.bindings) and _is_plain(op)


@dataclass(frozen=True)
class _Nest:
    """A perfect loop nest around one block.

    Attributes:
        loops: outermost first.
        block: the block.
        axes: the loop index of each axis; None for an axis of extent 1.
    """

    loops: tuple[ir.OpView, ...]
    block: BlockOp
    axes: tuple[int | None, ...]

    def collapse(self) -> None:
        """Replaces the loops by a block over the whole iteration domain."""
        outermost = self.loops[0]
        with ir.InsertionPoint(outermost), outermost.location:
            extents = [self._extent(a) for a in range(len(self.axes))]
            names = ["" if a is None else _name(self.loops[a]) for a in self.axes]
            grid = create_grid(self.block, range(len(self.axes)), extents, names)
        move_body(self.block, grid)
        outermost.operation.erase()
        for op in list(walk(grid)):
            if op.operation.name == "tir.let":
                replace(op, op.operands[0])
        expand_intrinsics(grid)

    def _extent(self, axis: int) -> int | ir.Value:
        loop = self.axes[axis]
        if loop is None:
            return 1
        end = self.loops[loop].operands[1]
        known = constant_of(end)
        return rematerialize(end, {}) if known is None else known


def _name(loop: ir.OpView) -> str:
    attributes = loop.operation.attributes
    return (
        ir.StringAttr(attributes[attribute_names.NAME]).value
        if attribute_names.NAME in attributes
        else "i"
    )


def _nest(outermost: ir.OpView, symbols: Mapping[ir.Value, str]) -> _Nest | None:
    """The perfect loop nest that starts here, or None."""
    loops: list[ir.OpView] = []
    op: ir.OpView | None = outermost
    while op is not None and op.operation.name == "scf.for":
        if not _is_simple(op) or size_expression(op.operands[1], symbols) is None:
            return None
        loops.append(op)
        op = _only_statement(op.operation.regions[0].blocks[0])
    if not (isinstance(op, BlockOp) and _is_plain(op) and _is_unordered(op)):
        return None
    axes = _axes(op, loops, symbols)
    return None if axes is None else _Nest(tuple(loops), op, axes)


def _is_simple(loop: ir.OpView) -> bool:
    attributes = loop.operation.attributes
    kind = attribute_names.KIND not in attributes or (
        ir.StringAttr(attributes[attribute_names.KIND]).value == "serial"
    )
    plain = attribute_names.ANNOTATIONS not in attributes and not len(
        loop.operation.results
    )
    return kind and plain and constant_of(loop.operands[0]) == 0


def _only_statement(block: ir.Block) -> ir.OpView | None:
    """The single statement of a loop body besides scalar arithmetic, or None."""
    *operations, _ = own_operations(block)
    found = [op for op in operations if not is_scalar_arithmetic(op)]
    return found[0] if len(found) == 1 else None


def _axes(
    block: BlockOp, loops: list[ir.OpView], symbols: Mapping[ir.Value, str]
) -> tuple[int | None, ...] | None:
    """The loop of each axis; None if loops and axes do not correspond one to one."""
    if (
        set(block.kinds.value) - {"S", "R"}
        or attribute_names.AXIS_STARTS in block.attributes
    ):
        return None
    variables = {
        loop.operation.regions[0].blocks[0].arguments[0]: number
        for number, loop in enumerate(loops)
    }
    found: list[int | None] = []
    for binding, extent in zip(block.bindings, block.axis_extents(), strict=True):
        size = extent if isinstance(extent, int) else size_expression(extent, symbols)
        number = variables.get(binding)
        if number is None:
            if constant_of(binding) != 0 or size != 1:
                return None
        elif number in found or _trip_count(loops[number], symbols) != size:
            return None
        found.append(number)
    missing = set(range(len(loops))) - set(found)
    return (
        None
        if any(_trip_count(loops[n], symbols) != 1 for n in missing)
        else tuple(found)
    )


def _trip_count(loop: ir.OpView, symbols: Mapping[ir.Value, str]) -> Dim | None:
    return size_expression(loop.operands[1], symbols)


def _is_plain(block: BlockOp) -> bool:
    """Whether a block contains only arithmetic, loads and stores, without loop-carried reads.

    No point of its domain may read what another one writes.
    """
    regions = block.operation.regions
    return all(
        _is_plain_region(b) for r in regions for b in r.blocks
    ) and not _reads_other_points(block)


def _reads_other_points(block: BlockOp) -> bool:
    """Whether a block may read elements that it writes at other points of its domain."""
    body = block.body.blocks[0]
    places = _stored_elements(body)
    written = {buffer for buffer, *_ in places}
    start = walk(block.init.blocks[0]) if block.has_init else ()
    reads, start_reads = (
        [
            op
            for op in operations
            if op.operation.name == "memref.load" and op.operands[0] in written
        ]
        for operations in (walk(body), start)
    )
    return bool(start_reads) or any(tuple(op.operands) not in places for op in reads)


def _stored_elements(body: ir.Block) -> set[tuple[ir.Value, ...]]:
    """The buffer and the indices of each store."""
    stores = (op for op in walk(body) if op.operation.name == "memref.store")
    return {tuple(op.operands)[1:] for op in stores}


def _is_unordered(block: BlockOp) -> bool:
    """Whether the points of a block provably write the same values in any order.

    Each stores elements of its own, which points that differ in reduction axes alone update.
    """
    body = block.body.blocks[0]
    kinds_and_extents = zip(block.kinds.value, block.static_extents, strict=True)
    extents = {
        axis: 1 if kind == "R" else extent
        for axis, (kind, extent) in zip(body.arguments, kinds_and_extents, strict=True)
    }
    loads = (op for op in walk(body) if op.operation.name == "memref.load")
    read = {op.operands[0] for op in loads}
    places = _stored_elements(body)
    if len(places) > len({buffer for buffer, *_ in places}):
        return False  # the last store to an element wins
    return all(
        determine_axes(indices, extents)
        and ("R" not in block.kinds.value or buffer in read)
        for buffer, *indices in places
    )


def _is_plain_region(block: ir.Block) -> bool:
    return all(_is_plain_operation(op) for op in own_operations(block))


_PLAIN = frozenset(
    {
        *("memref.load", "memref.store", "gpu.yield", "scf.yield", "tir.let"),
        "builtin.unrealized_conversion_cast",
    }
)


def _is_plain_operation(op: ir.OpView) -> bool:
    name = op.operation.name
    if name in _PLAIN or is_scalar_arithmetic(op):
        return True
    if name == "tir.call":
        return is_expandable(op)
    if name == "scf.if":
        inner = list(_operations_in(op))
        stores = any(o.operation.name == "memref.store" for o in inner)
        return (
            bool(len(op.operation.results))
            and not stores
            and all(_is_plain_operation(o) for o in inner)
        )
    return name == "scf.for" and bool(len(op.operation.results))


def _operations_in(op: ir.OpView) -> Iterator[ir.OpView]:
    for region in op.operation.regions:
        for block in region.blocks:
            yield from own_operations(block)
