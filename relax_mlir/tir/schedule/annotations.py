"""Primitives that say something of loops, blocks and buffers."""

from __future__ import annotations

from typing import Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.symbols import symbols_of
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.memrefs import replace_buffer
from relax_mlir.tir.schedule import accesses, dependences, edit, legality, tree
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.state import ScheduleState, loop_var

__all__ = [
    "annotate",
    "reorder_block_iter_var",
    "set_loop_kind",
    "set_scope",
    "storage_align",
    "unannotate",
]


def annotate(state: ScheduleState, op: ir.Operation, key: str, value: Any) -> None:
    """Say something of a loop or a block, unless it is said already."""
    if key in tree.annotations_of(op):
        return
    with state.change(op):
        edit.set_annotation(op, key, value)


def unannotate(state: ScheduleState, op: ir.Operation, key: str) -> None:
    """Take back what was said of a loop or a block."""
    if key not in tree.annotations_of(op):
        raise ScheduleError(
            f"unannotate: {tree.describe(op)} has no annotation `{key}`"
        )
    with state.change(op):
        edit.set_annotation(op, key, None)


def set_loop_kind(
    state: ScheduleState, loop: ir.Operation, kind: str, thread: str = ""
) -> None:
    """Say how the steps of a loop run."""
    if kind != "unrolled":
        for block in tree.blocks_below(loop):
            _check_parallel(loop, block, kind, thread)
        dependences.check_none_carried(
            [loop],
            f"{kind}: {tree.describe(loop)}",
            in_lockstep=thread.startswith("threadIdx"),
        )
    with state.change(loop):
        loop.attributes[marks.KIND] = ir.StringAttr.get(kind)
        if thread:
            loop.attributes[marks.THREAD] = ir.StringAttr.get(thread)
        elif marks.THREAD in loop.attributes:
            del loop.attributes[marks.THREAD]


def _check_parallel(
    loop: ir.Operation, block: ir.Operation, kind: str, thread: str
) -> None:
    where = f"{kind}: {tree.describe(loop)}"
    if not legality.has_affine_bindings(block, may_overlap=True):
        raise ScheduleError(
            f"{where}: the bindings of {tree.describe(block)} are not quasi-affine"
        )
    legality.check_complete_or_reduction(block, where, loop)
    indices = Indices()
    name = indices.symbol(loop_var(loop))
    kinds = tree.kinds_of(block)
    across_threads = kind == "thread_binding" and thread.startswith("threadIdx")
    for value, axis in zip(tree.bindings(block), kinds, strict=True):
        if name not in symbols_of(indices.of(value)):
            continue
        if axis != "S" and not (axis == "R" and across_threads):
            raise ScheduleError(
                f"{where}: {tree.describe(block)} has a reduce axis that depends on the "
                "loop: expected spatial axes alone"
            )


def reorder_block_iter_var(
    state: ScheduleState, block: ir.Operation, order: list[int]
) -> None:
    """Put the axes of a block into another order."""
    count = len(tree.kinds_of(block))
    if sorted(order) != list(range(count)):
        raise ScheduleError(
            f"reorder_block_iter_var: {tree.describe(block)} has {count} axes: expected "
            f"each of the numbers 0 to {count - 1} once, got {list(order)}"
        )
    with state.change(block):
        _permute_axes(block, order)


def _permute_axes(block: ir.Operation, order: list[int]) -> None:
    extents, values = tree.axis_extents(block), tree.bindings(block)
    lists = {
        "kinds": tree.kinds_of(block),
        marks.AXIS_NAMES: tree.axis_names(block),
        marks.AXIS_DTYPES: tree.axis_dtypes(block),
    }
    moved = {k: [v[i] for i in order] for k, v in lists.items()}
    block.attributes["kinds"] = ir.StringAttr.get("".join(moved.pop("kinds")))
    for name, value in moved.items():
        if name in block.attributes:
            block.attributes[name] = to_attribute(value)
    if marks.AXIS_STARTS in block.attributes:
        starts = tree.axis_starts(block)
        permuted = tensors.shape_attr([starts[i] for i in order])
        block.attributes[marks.AXIS_STARTS] = permuted
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
    """Ask for a stride of an axis that is ``offset`` modulo ``factor``."""
    where = "storage_align"
    buffer = accesses.buffer_of(block, number, where, is_write=True)
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
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is an argument: expected "
            "one that the program allocates"
        )
    with state.change(block):
        said = tree.annotations_of(block).get("buffer_dim_align", ())
        made = [number, axis % rank, factor, offset]
        kept = [list(e) for e in said if list(e)[:2] != made[:2]]
        edit.set_annotation(block, "buffer_dim_align", [*kept, made])


def set_scope(
    state: ScheduleState, block: ir.Operation, number: int, scope: str
) -> None:
    """Move a buffer that a block writes to another memory."""
    buffer = accesses.buffer_of(block, number, "set_scope", is_write=True)
    accesses.check_storage_scope(scope, "set_scope")
    if accesses.is_argument(buffer):
        raise ScheduleError(
            f"set_scope: buffer `{accesses.buffer_name(buffer)}` is an argument: "
            "expected one that the program allocates"
        )
    if accesses.storage_scope(buffer) == scope:
        return
    with state.change(block):
        old = ir.MemRefType(buffer.type)
        space = None if scope == "global" else ir.StringAttr.get(scope)
        type_ = ir.MemRefType.get(old.shape, old.element_type, memory_space=space)
        attributes = edit.attributes_of(buffer.owner.operation)
        if marks.NAME in attributes:
            name = f"{accesses.buffer_name(buffer)}_{scope.replace('.', '_')}"
            attributes[marks.NAME] = ir.StringAttr.get(name)
        with edit.point_before(buffer.owner.operation):
            made = ir.Operation.create(
                "tir.alloc_buffer",
                results=[type_],
                operands=list(buffer.owner.operands),
                attributes=attributes,
            )
        old_op = buffer.owner.operation
        replace_buffer(buffer, made.results[0])
        state.erase(old_op)
