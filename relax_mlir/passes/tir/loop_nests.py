"""Utilities for loop nests around blocks of tensor programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import (
    SIZE_ARITHMETIC,
    constant_of,
    size_of_operation,
)
from relax_mlir.dialects import shapes
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.ir.traversal import own_operations, values_read, walk
from relax_mlir.objects.effects import is_scalar_arithmetic
from relax_mlir.rewrite.patterns import clone, erase, has_uses
from relax_mlir.symbolic.bounds import SIGNED, bounds
from relax_mlir.symbolic.intervals import Range

__all__ = [
    "create_grid",
    "create_loop",
    "erase_unused",
    "index_upper_bound",
    "is_scheduled",
    "move_body",
    "rematerialize",
    "size_expression",
]


def size_expression(value: ir.Value, symbols: Mapping[ir.Value, str]) -> Dim | None:
    """A value as an expression of the program's symbols; None if it depends on anything else."""
    if value in symbols:
        return shapes.symbol(symbols[value])
    known = constant_of(value)
    if known is not None:
        return known
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in SIZE_ARITHMETIC:
        return None
    return size_of_operation(
        owner.name, [size_expression(operand, symbols) for operand in owner.operands]
    )


def index_upper_bound(value: ir.Value) -> int | None:
    """An upper bound of an index over all iterations of its loops and blocks.

    None if no constant bounds it.
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
    size = size_expression(value, symbols)
    return None if size is None else bounds(size, limits)[1]


def _limits_of(variable: ir.BlockArgument) -> Range:
    """Constant bounds of a loop variable or block axis; None where a bound is not constant."""
    around = variable.owner.owner.opview
    if isinstance(around, BlockOp):
        extent = around.axis_extents()[variable.arg_number]
        if attribute_names.AXIS_STARTS in around.attributes:
            return None, None
        top = extent if isinstance(extent, int) else index_upper_bound(extent)
        return 0, None if top is None else top - 1
    if around.operation.name != "scf.for":
        return None, None
    low, high = (around.operation.operands[n] for n in range(2))
    top = index_upper_bound(high)
    return constant_of(low), None if top is None else top - 1


def rematerialize(value: ir.Value, mapping: dict[ir.Value, ir.Value]) -> ir.Value:
    """Clones the computation of a value from sizes at the insertion point."""
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
    """A block like ``op`` over a whole iteration domain; its regions are empty.

    Args:
        axes: the axes of ``op`` in their new order.
        extents: of the new axes.
        loops: names of the former loops.
    """
    kinds = op.kinds.value
    dynamic = [e for e in extents if not isinstance(e, int)]
    static = [e if isinstance(e, int) else -1 for e in extents]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["kinds"] = ir.StringAttr.get("".join(kinds[a] for a in axes))
    attributes["static_extents"] = ir.DenseI64ArrayAttr.get(static)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(dynamic), 0])
    attributes[attribute_names.LOOP_NAMES] = ir.ArrayAttr.get(
        list(map(ir.StringAttr.get, loops))
    )
    return ir.Operation.create(
        BlockOp.OPERATION_NAME, operands=dynamic, attributes=attributes, regions=2
    )


def move_body(source: ir.OpView | ir.Operation, target: ir.Operation) -> None:
    """Moves the blocks in the regions of one operation to those of another."""
    for old, new in zip(source.operation.regions, target.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)


def create_loop(
    end: int | ir.Value, name: str, dtype: str | None, kind: str = "serial"
) -> tuple[ir.Operation, ir.Block]:
    """A loop from 0 to ``end`` whose body has only the terminator."""
    operands = [_index(0), _index(end), _index(1)]
    attributes: dict[str, Any] = {
        attribute_names.KIND: ir.StringAttr.get(kind),
        attribute_names.NAME: ir.StringAttr.get(name),
    }
    if dtype is not None:
        attributes[attribute_names.DTYPE] = ir.StringAttr.get(dtype)
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
    """Erases scalar arithmetic without users, last first."""
    for op in reversed(list(own_operations(block))):
        if is_scalar_arithmetic(op) and not any(map(has_uses, op.operation.results)):
            erase(op)


def is_scheduled(function: func.FuncOp) -> bool:
    """Whether a program has anything but buffers and blocks over whole iteration domains."""
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
