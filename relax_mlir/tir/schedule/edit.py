"""Moving statements, with the arithmetic that they need.

Every primitive keeps two things true: what a statement computes its bounds, bindings or
predicate of stands in the same list of operations as the statement; and a block uses
nothing from outside but axes, loop variables and buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir import marks
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.tir.schedule import tree
from relax_mlir.tir.schedule.indices import Indices, emit_constant
from relax_mlir.traversal import own_operations

__all__ = [
    "Axis",
    "localise",
    "make_block",
    "make_loop",
    "move_before",
    "move_body",
    "point_before",
    "set_annotation",
    "sweep",
]


@dataclass(frozen=True)
class Axis:
    """An axis of a block.

    Attributes:
        kind: ``S`` spatial, ``R`` reduce, ``O`` opaque or ``C`` ordered.
        extent: how many values it takes.
        name: for readers.
        dtype: ``int32`` or ``int64``.
        start: its first value.
    """

    kind: str
    extent: Dim
    name: str
    dtype: str = "int32"
    start: Dim = 0


def localise(root: ir.Operation) -> None:
    """Bring arithmetic to where it is used, everywhere below ``root``."""
    for op in tree.subtree(root):
        if op != root:
            _bring_operands(op, lambda owner, op=op: owner.block != op.block)
    sweep(root)


def bring_operands(op: ir.Operation) -> None:
    """Copy the arithmetic that an operation uses to where it stands."""
    _bring_operands(op, lambda owner: True)


def _bring_operands(op: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> None:
    copies: dict[ir.Value, ir.Value] = {}
    for number, operand in enumerate(list(op.operands)):
        owner = operand.owner
        if isinstance(owner, ir.Block) or not tree.is_pure(owner.operation):
            continue
        if wanted(owner.operation):
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = copy_of(operand, copies)


def copy_of(value: ir.Value, copies: dict[ir.Value, ir.Value]) -> ir.Value:
    """A value computed once more at the insertion point.

    Args:
        copies: values that have another one in their place; those copied are added.
    """
    if value in copies:
        return copies[value]
    owner = value.owner
    if isinstance(owner, ir.Block) or not tree.is_pure(owner.operation):
        return value
    operands = [copy_of(operand, copies) for operand in owner.operands]
    made = owner.operation.clone()
    for number, operand in enumerate(operands):
        made.operands[number] = operand
    copies[value] = made.results[0]
    return made.results[0]


def sweep(root: ir.Operation) -> None:
    """Erase arithmetic that nobody uses, below ``root``."""
    holders = [op for op in tree.subtree(root) if len(op.regions)]
    for op in reversed(holders):  # what is inside goes first
        for region in op.regions:
            for block in region.blocks:
                rewriting.erase_dead(block, tree.is_pure)


def move_before(op: ir.Operation, place: ir.Operation) -> None:
    """Move a statement; the arithmetic that it uses is copied there."""
    op.move_before(place)
    bring_operands(op)


def move_body(source: ir.Block, place: ir.Operation) -> None:
    """Move all operations of a list, but the terminator, in front of another."""
    *operations, _ = own_operations(source)
    for op in operations:
        op.operation.move_before(place)


def point_before(op: ir.Operation) -> ir.InsertionPoint:
    """Where new operations stand in front of one."""
    return ir.InsertionPoint(op)


def terminator(block: ir.Block) -> ir.Operation:
    """The last operation of a list."""
    *_, last = own_operations(block)
    return last.operation


def make_loop(
    indices: Indices,
    extent: Dim,
    attributes: Mapping[str, ir.Attribute],
    begin: Dim = 0,
) -> ir.Operation:
    """An empty loop at the insertion point."""
    bounds = [indices.emit(begin), indices.emit(begin + extent), emit_constant(1)]
    op = ir.Operation.create(
        "scf.for", operands=bounds, regions=1, attributes=dict(attributes)
    )
    block = ir.Block.create_at_start(
        op.regions[0], [ir.IndexType.get()], [ir.Location.unknown()]
    )
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.yield")
    return op


def loop_attributes(
    name: str,
    kind: str = "serial",
    thread: str = "",
    dtype: str = "",
) -> dict[str, ir.Attribute]:
    """The attributes of a loop."""
    found: dict[str, ir.Attribute] = {
        marks.KIND: ir.StringAttr.get(kind),
        marks.NAME: ir.StringAttr.get(name),
    }
    if thread:
        found[marks.THREAD] = ir.StringAttr.get(thread)
    if dtype and dtype != "int32":
        found[marks.DTYPE] = ir.StringAttr.get(dtype)
    return found


def make_guard(condition: ir.Value) -> ir.Operation:
    """An empty predicate at the insertion point."""
    op = ir.Operation.create(
        "scf.if",
        operands=[condition],
        attributes={marks.WHERE: ir.UnitAttr.get()},
        regions=2,
    )
    with ir.InsertionPoint(ir.Block.create_at_start(op.regions[0], [])):
        ir.Operation.create("scf.yield")
    return op


def make_block(
    name: str,
    axes: Sequence[Axis],
    values: Sequence[ir.Value],
    extents: Callable[[Dim], ir.Value],
    annotations: Mapping[str, object] | None = None,
) -> ir.Operation:
    """A block without a body at the insertion point.

    Args:
        axes: what is known of each axis.
        values: what the axes are at a point.
        extents: how to compute an extent that is no number.
    """
    static = [a.extent if isinstance(a.extent, int) else -1 for a in axes]
    dynamic = [extents(a.extent) for a in axes if not isinstance(a.extent, int)]
    attributes: dict[str, ir.Attribute] = {
        "name": ir.StringAttr.get(name),
        "kinds": ir.StringAttr.get("".join(a.kind for a in axes)),
        "static_extents": ir.DenseI64ArrayAttr.get(static),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), len(values)]),
        marks.AXIS_NAMES: to_attribute([a.name for a in axes]),
    }
    if any(a.dtype != "int32" for a in axes):
        attributes[marks.AXIS_DTYPES] = to_attribute([a.dtype for a in axes])
    if any(a.start != 0 for a in axes):
        attributes[marks.AXIS_STARTS] = tensors.shape_attr([a.start for a in axes])
    if annotations:
        attributes[marks.ANNOTATIONS] = to_attribute(dict(annotations))
    return ir.Operation.create(
        "tir.block", operands=[*dynamic, *values], attributes=attributes, regions=2
    )


def make_opaque_block(name: str) -> ir.Operation:
    """An empty block without axes at the insertion point."""
    made = make_block(name, [], [], lambda size: emit_constant(0))
    open_region(made, 1)
    return made


def set_extents(
    block: ir.Operation, extents: Sequence[Dim], emit: Callable[[Dim], ir.Value]
) -> None:
    """Give the axes of a block other extents; those that were numbers still are.

    Args:
        emit: computes an extent that is no number, at the insertion point.
    """
    static = [e if isinstance(e, int) else -1 for e in extents]
    block.attributes["static_extents"] = ir.DenseI64ArrayAttr.get(static)
    for number, extent in enumerate(e for e in extents if not isinstance(e, int)):
        block.operands[number] = emit(extent)


def with_regions(
    block: ir.Operation, init: ir.Block | None, body: ir.Block
) -> ir.Operation:
    """The same block with other contents, which are moved; before the old one."""
    with ir.InsertionPoint(block):
        made = ir.Operation.create(
            block.name,
            operands=list(block.operands),
            attributes=attributes_of(block),
            regions=2,
        )
    if init is not None:
        init.append_to(made.regions[0])
    body.append_to(made.regions[1])
    return made


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """All attributes of an operation."""
    return {name: op.attributes[name] for name in op.attributes}


def open_region(block: ir.Operation, number: int) -> ir.Block:
    """An empty region of a block, with its axes as arguments."""
    count = len(tree.kinds_of(block))
    types = [ir.IndexType.get()] * count
    made = ir.Block.create_at_start(
        block.regions[number], types, [ir.Location.unknown()] * count
    )
    with ir.InsertionPoint(made):
        ir.Operation.create("gpu.yield")
    return made


def permute_arguments(block: ir.Block, order: Sequence[int]) -> None:
    """Put the arguments of a list of operations into another order."""
    old = list(block.arguments)
    made = [
        block.add_argument(ir.IndexType.get(), ir.Location.unknown()) for _ in order
    ]
    for new, number in zip(made, order, strict=True):
        old[number].replace_all_uses_with(new)
    for _ in old:
        block.erase_argument(0)


def set_annotation(op: ir.Operation, key: str, value: object) -> None:
    """Say one thing more of a loop or a block; None takes it away."""
    said = tree.annotations_of(op)
    if value is None:
        said.pop(key, None)
    else:
        said[key] = value
    if said:
        op.attributes[marks.ANNOTATIONS] = to_attribute(said)
    elif marks.ANNOTATIONS in op.attributes:
        del op.attributes[marks.ANNOTATIONS]
