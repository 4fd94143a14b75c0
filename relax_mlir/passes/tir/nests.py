"""Loop nests around blocks of tensor programs, as the passes here see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dim_bounds import SIGNED, bounds
from relax_mlir.dialects.intervals import Range
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, marks
from relax_mlir.indexing import SIZE_ARITHMETIC, constant_of, size_by
from relax_mlir.objects.effects import is_scalar_arithmetic
from relax_mlir.rewriting import clone, erase, has_uses, walk
from relax_mlir.traversal import own_operations, values_read

__all__ = [
    "create_grid",
    "create_loop",
    "erase_unused",
    "greatest_value",
    "is_scheduled",
    "move_body",
    "rematerialize",
    "size_of",
]


def size_of(value: ir.Value, symbols: Mapping[ir.Value, str]) -> Dim | None:
    """A value as a size, where it is computed of the program's sizes alone."""
    if value in symbols:
        return shapes.symbol(symbols[value])
    known = constant_of(value)
    if known is not None:
        return known
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in SIZE_ARITHMETIC:
        return None
    return size_by(
        owner.name, [size_of(operand, symbols) for operand in owner.operands]
    )


def greatest_value(value: ir.Value) -> int | None:
    """The greatest value of a number in any step of the loops and blocks around it.

    None if no number is known to bound it.
    """
    limits: dict[str, Range] = {}
    symbols: dict[ir.Value, str] = {}
    todo = [value]
    while todo:
        current = todo.pop()
        owner = current.owner
        if not isinstance(owner, ir.Block):
            todo += values_read(owner)
        elif current not in symbols:
            low, high = _limits_of(ir.BlockArgument(current))
            sign = "" if low is not None and low >= 0 else SIGNED
            symbols[current] = f"x{len(symbols)}{sign}"
            limits[symbols[current]] = low, high
    size = size_of(value, symbols)
    return None if size is None else bounds(size, limits)[1]


def _limits_of(variable: ir.BlockArgument) -> Range:
    """Bounds of a loop variable, or of an axis of a block, as far as those are numbers."""
    around = variable.owner.owner.opview
    if isinstance(around, BlockOp):
        extent = around.axis_extents()[variable.arg_number]
        if marks.AXIS_STARTS in around.attributes:
            return None, None
        top = extent if isinstance(extent, int) else greatest_value(extent)
        return 0, None if top is None else top - 1
    if around.operation.name != "scf.for":
        return None, None
    low, high = (around.operation.operands[n] for n in range(2))
    top = greatest_value(high)
    return constant_of(low), None if top is None else top - 1


def rematerialize(value: ir.Value, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    """A value that is computed of sizes, computed once more at the insertion point."""
    owner = value.owner
    if value in mapping or isinstance(owner, ir.Block):
        return mapping.get(value, value)
    for operand in values_read(owner):
        rematerialize(operand, mapping)
    clone(owner.opview if isinstance(owner, ir.Operation) else owner, mapping)
    return mapping[value]


def create_grid(
    op: BlockOp,
    axes: Sequence[int],
    extents: Sequence[int | ir.Value],
    loops: Sequence[str],
) -> ir.Operation:
    """A block like ``op`` that stands for its whole grid; its regions are empty.

    Args:
        axes: those of ``op``, in the order of the new one's.
        extents: their sizes.
        loops: what the loops were called.
    """
    kinds = op.kinds.value
    dynamic = [e for e in extents if not isinstance(e, int)]
    static = [e if isinstance(e, int) else -1 for e in extents]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["kinds"] = ir.StringAttr.get("".join(kinds[a] for a in axes))
    attributes["static_extents"] = ir.DenseI64ArrayAttr.get(static)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(dynamic), 0])
    attributes[marks.LOOP_NAMES] = ir.ArrayAttr.get(list(map(ir.StringAttr.get, loops)))
    return ir.Operation.create(
        BlockOp.OPERATION_NAME, operands=dynamic, attributes=attributes, regions=2
    )


def move_body(source: ir.OpView | ir.Operation, target: ir.Operation) -> None:
    """Move what stands in the regions of one operation to those of another."""
    for old, new in zip(source.operation.regions, target.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)


def create_loop(
    end: int | ir.Value, name: str, dtype: str | None, kind: str = "serial"
) -> tuple[ir.Operation, ir.Block]:
    """A loop from 0 to ``end``; its body holds the terminator alone."""
    operands = [_index(0), _index(end), _index(1)]
    attributes: dict[str, Any] = {
        marks.KIND: ir.StringAttr.get(kind),
        marks.NAME: ir.StringAttr.get(name),
    }
    if dtype is not None:
        attributes[marks.DTYPE] = ir.StringAttr.get(dtype)
    loop = ir.Operation.create(
        "scf.for", operands=operands, attributes=attributes, regions=1
    )
    location = [ir.Location.current]
    block = ir.Block.create_at_start(loop.regions[0], [ir.IndexType.get()], location)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield")
    return loop, block


def _index(value: int | ir.Value) -> ir.Value:
    if isinstance(value, ir.Value):
        return value
    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create(
        "arith.constant", results=[index], attributes=attributes
    ).results[0]


def erase_unused(block: ir.Block) -> None:
    """Drop arithmetic whose results nobody reads, last first."""
    for op in reversed(list(own_operations(block))):
        if is_scalar_arithmetic(op) and not any(map(has_uses, op.operation.results)):
            erase(op)


def is_scheduled(function: func.FuncOp) -> bool:
    """Whether there is something else than buffers and blocks for whole grids."""
    *operations, _ = own_operations(function.entry_block)
    return any(
        o.operation.name.startswith(("scf.", "memref."))
        or (o.operation.name.startswith("tir.") and not _is_unscheduled(o))
        for o in operations
    )


def _is_unscheduled(op: ir.OpView) -> bool:
    if isinstance(op, BlockOp):
        inner = {o.operation.name for o in walk(op)}
        has_more = any(n.startswith("tir.") for n in inner)
        return not len(op.bindings) and not has_more
    return isinstance(op, AllocBufferOp)
