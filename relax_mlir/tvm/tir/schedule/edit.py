"""Creation, cloning and motion of loops and blocks, with the arithmetic they use.

Every primitive keeps two invariants: the arithmetic of the bounds, bindings or predicate of a
statement is in the same MLIR block as the statement; and a block uses no outer values but
iter vars, loop variables and buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols, emit_constant

__all__ = [
    "IterVarSpec",
    "erase_dead_arithmetic",
    "insertion_point_before",
    "make_block",
    "make_loop",
    "move_before",
    "move_body",
    "rematerialize_all",
    "set_annotation",
]


@dataclass(frozen=True)
class IterVarSpec:
    """The description of a block iter var.

    Attributes:
        kind: ``S`` spatial, ``R`` reduce, ``O`` opaque or ``C`` ordered.
        extent: the extent of its domain.
        name: its name.
        dtype: ``int32`` or ``int64``.
        start: the least value of its domain.
    """

    kind: str
    extent: Dim
    name: str
    dtype: str = "int32"
    start: Dim = 0


def rematerialize_all(root: ir.Operation) -> None:
    """Rematerialise arithmetic in the MLIR block of each user, everywhere below ``root``."""
    for op in tree.subtree(root):
        if op != root:
            _bring_operands(op, lambda owner, op=op: owner.block != op.block)
    erase_dead_arithmetic(root)


def rematerialize_operands(op: ir.Operation) -> None:
    """Rematerialise the arithmetic that an operation uses in front of it."""
    _bring_operands(op, lambda owner: True)


def _bring_operands(op: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> None:
    copies: dict[ir.Value, ir.Value] = {}
    for number, operand in enumerate(list(op.operands)):
        owner = operand.owner
        if isinstance(owner, ir.Block) or not tree.is_pure(owner.operation):
            continue
        if wanted(owner.operation):
            with ir.InsertionPoint(op), op.location:
                op.operands[number] = clone_expression(operand, copies)


def clone_expression(value: ir.Value, copies: dict[ir.Value, ir.Value]) -> ir.Value:
    """Clones the expression of a value at the insertion point.

    Args:
        copies: substitutions of values; cloned ones are added.
    """
    if value in copies:
        return copies[value]
    owner = value.owner
    if isinstance(owner, ir.Block) or not tree.is_pure(owner.operation):
        return value
    operands = [clone_expression(operand, copies) for operand in owner.operands]
    made = owner.operation.clone()
    for number, operand in enumerate(operands):
        made.operands[number] = operand
    copies[value] = made.results[0]
    return made.results[0]


def erase_dead_arithmetic(root: ir.Operation) -> None:
    """Erase dead arithmetic below ``root``."""
    region_ops = [op for op in tree.subtree(root) if len(op.regions)]
    for op in reversed(region_ops):  # innermost first
        for region in op.regions:
            for block in region.blocks:
                patterns.erase_dead(block, tree.is_pure)


def move_before(op: ir.Operation, anchor: ir.Operation) -> None:
    """Move a statement and rematerialise the arithmetic it uses."""
    op.move_before(anchor)
    rematerialize_operands(op)


def move_body(source: ir.Block, anchor: ir.Operation) -> None:
    """Move all operations of an MLIR block but the terminator in front of an operation."""
    *operations, _ = own_operations(source)
    for op in operations:
        op.operation.move_before(anchor)


def insertion_point_before(op: ir.Operation) -> ir.InsertionPoint:
    """The insertion point in front of an operation."""
    return ir.InsertionPoint(op)


def terminator(block: ir.Block) -> ir.Operation:
    """The terminator of an MLIR block."""
    *_, last = own_operations(block)
    return last.operation


def make_loop(
    indices: IndexSymbols,
    extent: Dim,
    attributes: Mapping[str, ir.Attribute],
    begin: Dim = 0,
) -> ir.Operation:
    """Creates an empty loop at the insertion point."""
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
        attribute_names.KIND: ir.StringAttr.get(kind),
        attribute_names.NAME: ir.StringAttr.get(name),
    }
    if thread:
        found[attribute_names.THREAD] = ir.StringAttr.get(thread)
    if dtype and dtype != "int32":
        found[attribute_names.DTYPE] = ir.StringAttr.get(dtype)
    return found


def make_predicate(condition: ir.Value) -> ir.Operation:
    """Creates an empty predicate (``T.where``) at the insertion point."""
    op = ir.Operation.create(
        "scf.if",
        operands=[condition],
        attributes={attribute_names.WHERE: ir.UnitAttr.get()},
        regions=2,
    )
    with ir.InsertionPoint(ir.Block.create_at_start(op.regions[0], [])):
        ir.Operation.create("scf.yield")
    return op


def make_block(
    name: str,
    axes: Sequence[IterVarSpec],
    values: Sequence[ir.Value],
    extents: Callable[[Dim], ir.Value],
    annotations: Mapping[str, object] | None = None,
) -> ir.Operation:
    """Creates a block with empty regions at the insertion point.

    Args:
        axes: the iter vars.
        values: their bindings.
        extents: emits an extent that is not constant.
    """
    static = [a.extent if isinstance(a.extent, int) else -1 for a in axes]
    dynamic = [extents(a.extent) for a in axes if not isinstance(a.extent, int)]
    attributes: dict[str, ir.Attribute] = {
        "name": ir.StringAttr.get(name),
        "kinds": ir.StringAttr.get("".join(a.kind for a in axes)),
        "static_extents": ir.DenseI64ArrayAttr.get(static),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), len(values)]),
        attribute_names.AXIS_NAMES: to_attribute([a.name for a in axes]),
    }
    if any(a.dtype != "int32" for a in axes):
        attributes[attribute_names.AXIS_DTYPES] = to_attribute([a.dtype for a in axes])
    if any(a.start != 0 for a in axes):
        attributes[attribute_names.AXIS_STARTS] = tensors.shape_attr(
            [a.start for a in axes]
        )
    if annotations:
        attributes[attribute_names.ANNOTATIONS] = to_attribute(dict(annotations))
    return ir.Operation.create(
        "tir.block", operands=[*dynamic, *values], attributes=attributes, regions=2
    )


def make_opaque_block(name: str) -> ir.Operation:
    """Creates an empty block without iter vars at the insertion point."""
    made = make_block(name, [], [], lambda size: emit_constant(0))
    create_region(made, 1)
    return made


def set_iter_extents(
    block: ir.Operation, extents: Sequence[Dim], emit: Callable[[Dim], ir.Value]
) -> None:
    """Set the extents of the iter domain; constant ones stay constant.

    Args:
        emit: emits an extent that is not constant, at the insertion point.
    """
    static = [e if isinstance(e, int) else -1 for e in extents]
    block.attributes["static_extents"] = ir.DenseI64ArrayAttr.get(static)
    for number, extent in enumerate(e for e in extents if not isinstance(e, int)):
        block.operands[number] = emit(extent)


def clone_with_regions(
    block: ir.Operation, init: ir.Block | None, body: ir.Block
) -> ir.Operation:
    """A copy of a block in front of it, into which other region bodies are moved."""
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


def create_region(block: ir.Operation, number: int) -> ir.Block:
    """Creates the body of an empty region of a block, with iter vars as arguments."""
    count = len(tree.iter_kinds(block))
    types = [ir.IndexType.get()] * count
    made = ir.Block.create_at_start(
        block.regions[number], types, [ir.Location.unknown()] * count
    )
    with ir.InsertionPoint(made):
        ir.Operation.create("gpu.yield")
    return made


def permute_arguments(block: ir.Block, order: Sequence[int]) -> None:
    """Permute the arguments of an MLIR block."""
    old = list(block.arguments)
    made = [
        block.add_argument(ir.IndexType.get(), ir.Location.unknown()) for _ in order
    ]
    for new, number in zip(made, order, strict=True):
        old[number].replace_all_uses_with(new)
    for _ in old:
        block.erase_argument(0)


def set_annotation(op: ir.Operation, key: str, value: object) -> None:
    """Set an annotation of a loop or a block; None removes it."""
    annotations = tree.annotations_of(op)
    if value is None:
        annotations.pop(key, None)
    else:
        annotations[key] = value
    if annotations:
        op.attributes[attribute_names.ANNOTATIONS] = to_attribute(annotations)
    elif attribute_names.ANNOTATIONS in op.attributes:
        del op.attributes[attribute_names.ANNOTATIONS]
