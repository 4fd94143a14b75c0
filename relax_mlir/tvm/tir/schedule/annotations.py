"""Primitives that change attributes of loops, blocks and buffers."""

from __future__ import annotations

from typing import Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.write.memref import replace_buffer
from relax_mlir.tvm.tir.schedule import (
    accesses,
    concurrency,
    edit,
    tree,
)
from relax_mlir.tvm.tir.schedule.state import ScheduleState

__all__ = [
    "annotate",
    "reorder_block_iter_var",
    "set_loop_kind",
    "set_scope",
    "storage_align",
    "unannotate",
]


def annotate(state: ScheduleState, op: ir.Operation, key: str, value: Any) -> None:
    """Add an annotation to a loop or a block, unless the key is present."""
    if key in tree.annotations_of(op):
        return
    with state.change(op):
        edit.set_annotation(op, key, value)


def unannotate(state: ScheduleState, op: ir.Operation, key: str) -> None:
    """Remove an annotation of a loop or a block."""
    if key not in tree.annotations_of(op):
        raise ScheduleError(
            f"unannotate: {tree.describe(op)} has no annotation `{key}`"
        )
    with state.change(op):
        edit.set_annotation(op, key, None)


def set_loop_kind(
    state: ScheduleState, loop: ir.Operation, kind: str, thread: str = ""
) -> None:
    """Set the kind of a loop: parallel, vectorized, unrolled or thread binding."""
    if kind != "unrolled":
        concurrency.check_loop_kind(loop, kind, thread)
    with state.change(loop):
        loop.attributes[attribute_names.KIND] = ir.StringAttr.get(kind)
        if thread:
            loop.attributes[attribute_names.THREAD] = ir.StringAttr.get(thread)
        elif attribute_names.THREAD in loop.attributes:
            del loop.attributes[attribute_names.THREAD]


def reorder_block_iter_var(
    state: ScheduleState, block: ir.Operation, order: list[int]
) -> None:
    """Permute the iter vars of a block."""
    count = len(tree.iter_kinds(block))
    if sorted(order) != list(range(count)):
        raise ScheduleError(
            f"reorder_block_iter_var: {tree.describe(block)} has {count} iter vars: expected "
            f"each of the numbers 0 to {count - 1} once, got {list(order)}"
        )
    with state.change(block):
        _permute_iter_vars(block, order)


def _permute_iter_vars(block: ir.Operation, order: list[int]) -> None:
    extents, values = tree.iter_extent_operands(block), tree.bindings(block)
    attributes = {
        "kinds": tree.iter_kinds(block),
        attribute_names.AXIS_NAMES: tree.iter_var_names(block),
        attribute_names.AXIS_DTYPES: tree.iter_var_dtypes(block),
    }
    permuted_lists = {k: [v[i] for i in order] for k, v in attributes.items()}
    block.attributes["kinds"] = ir.StringAttr.get("".join(permuted_lists.pop("kinds")))
    for name, value in permuted_lists.items():
        if name in block.attributes:
            block.attributes[name] = to_attribute(value)
    if attribute_names.AXIS_STARTS in block.attributes:
        starts = tree.iter_var_mins(block)
        permuted = tensors.shape_attr([starts[i] for i in order])
        block.attributes[attribute_names.AXIS_STARTS] = permuted
    sizes = [extents[i] for i in order]
    static = [e if isinstance(e, int) else -1 for e in sizes]
    block.attributes["static_extents"] = ir.DenseI64ArrayAttr.get(static)
    dynamic = [e for e in sizes if not isinstance(e, int)]
    operands = [*dynamic, *(values[i] for i in order)]
    for number, operand in enumerate(operands):
        block.operands[number] = operand
    for region in block.regions:
        for inner in region.blocks:
            edit.permute_arguments(inner, order)


def storage_align(
    state: ScheduleState,
    block: ir.Operation,
    number: int,
    axis: int,
    factor: int,
    offset: int,
) -> None:
    """Request that the stride of an axis is ``offset`` modulo ``factor``."""
    where = "storage_align"
    buffer = accesses.buffer_at_index(block, number, where, is_write=True)
    rank = len(accesses.buffer_shape(buffer))
    if not -rank <= axis < rank:
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` has {rank} dimensions: "
            f"expected an axis from {-rank} to {rank - 1}, got {axis}"
        )
    if factor <= 0:
        raise ScheduleError(f"{where}: expected a factor above 0, got {factor}")
    if accesses.is_argument(buffer):
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is a parameter: expected "
            "one allocated in the function"
        )
    with state.change(block):
        alignments = tree.annotations_of(block).get("buffer_dim_align", ())
        alignment = [number, axis % rank, factor, offset]
        kept = [list(e) for e in alignments if list(e)[:2] != alignment[:2]]
        edit.set_annotation(block, "buffer_dim_align", [*kept, alignment])


def set_scope(
    state: ScheduleState, block: ir.Operation, number: int, scope: str
) -> None:
    """Set the storage scope of a buffer that a block writes."""
    buffer = accesses.buffer_at_index(block, number, "set_scope", is_write=True)
    accesses.check_storage_scope(scope, "set_scope")
    if accesses.is_argument(buffer):
        raise ScheduleError(
            f"set_scope: buffer `{accesses.buffer_name(buffer)}` is a parameter: "
            "expected one allocated in the function"
        )
    if accesses.storage_scope(buffer) == scope:
        return
    with state.change(block):
        old = ir.MemRefType(buffer.type)
        space = None if scope == "global" else ir.StringAttr.get(scope)
        type_ = ir.MemRefType.get(old.shape, old.element_type, memory_space=space)
        attributes = edit.attributes_of(buffer.owner.operation)
        if attribute_names.NAME in attributes:
            name = f"{accesses.buffer_name(buffer)}_{scope.replace('.', '_')}"
            attributes[attribute_names.NAME] = ir.StringAttr.get(name)
        with edit.insertion_point_before(buffer.owner.operation):
            made = ir.Operation.create(
                "tir.alloc_buffer",
                results=[type_],
                operands=list(buffer.owner.operands),
                attributes=attributes,
            )
        old_op = buffer.owner.operation
        replace_buffer(buffer, made.results[0])
        state.erase(old_op)
