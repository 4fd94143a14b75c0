"""Primitives that change what is said of the elements and axes of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects import dtypes
from relax_mlir.dialects.tir import Scalar, buffer_type, marks
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.objects.value_types import converted
from relax_mlir.tir.schedule import accesses, buffers, edit, tree
from relax_mlir.tir.schedule.layout import check_plain
from relax_mlir.tir.schedule.state import ScheduleState

__all__ = ["set_axis_separator", "unsafe_set_dtype"]


def unsafe_set_dtype(
    state: ScheduleState, block: ir.Operation, number: int, dtype: str
) -> None:
    """Keep elements in another type; see :meth:`Schedule.unsafe_set_dtype`."""
    where = "unsafe_set_dtype"
    buffer = accesses.buffer_of(block, number, where, is_write=True)
    if accesses.is_argument(buffer):
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is an argument: expected "
            "one that the program allocates"
        )
    check_plain(buffer, where)
    old, new = buffers.element_dtype(buffer), dtype
    if old == new:
        return
    is_marked = not dtypes.dtype(new).is_told_by_buffers
    with state.change(block) as indices:
        element = buffer_type([], dtypes.dtype(new)).element_type
        mark = {marks.DTYPE: ir.StringAttr.get(new) if is_marked else None}
        made = buffers.retyped(state, buffer, indices, element=element, changed=mark)
        for use in list(made.uses):
            _convert(use.owner.operation, made, old, new)
        edit.localise(tree.function_of(block))


def _convert(op: ir.Operation, buffer: ir.Value, old: str, new: str) -> None:
    """Convert what is stored to the new type, and what is loaded back."""
    with edit.point_before(op):
        if op.name == "memref.store":
            stored = Scalar(op.operands[0], dtypes.dtype(old))
            op.operands[0] = converted(stored, dtypes.dtype(new))
            return
        element = ir.MemRefType(buffer.type).element_type
        loaded = emit("memref.load", element, buffer, *list(op.operands)[1:])
        for use in list(op.results[0].uses):
            user = use.owner.operation
            if user.name == "arith.index_cast":  # indices are read from any type
                with edit.point_before(user):
                    index = emit(user.name, user.results[0].type, loaded)
                rewriting.replace(user, index)
        value = converted(Scalar(loaded, dtypes.dtype(new)), dtypes.dtype(old))
    rewriting.replace(op, value)


def set_axis_separator(
    state: ScheduleState,
    block: ir.Operation,
    buffer: ir.Value,
    separators: Sequence[int],
) -> None:
    """Say where groups of axes end; see :meth:`Schedule.set_axis_separator`."""
    rank = len(accesses.buffer_shape(buffer))
    if any(not 0 <= s <= rank for s in separators) or list(separators) != sorted(
        set(separators)
    ):
        raise ScheduleError(
            f"set_axis_separator: buffer `{accesses.buffer_name(buffer)}` has {rank} "
            f"dimensions: expected rising numbers from 0 to {rank}, got "
            f"{list(separators)}"
        )
    with state.change(block) as indices:
        said = accesses.buffer_extras(buffer)
        made = buffers.retyped(
            state, buffer, indices, changed=_separated(said, separators)
        )
        for use in list(made.uses):
            op = use.owner.operation
            if op.name == "memref.subview":
                known = (
                    dict(from_attribute(op.attributes[marks.BUFFER]))
                    if marks.BUFFER in op.attributes
                    else {}
                )
                for name, value in _separated(known, separators).items():
                    if value is not None:
                        op.attributes[name] = value
                    elif name in op.attributes:
                        del op.attributes[name]


def _separated(
    said: dict[str, object], separators: Sequence[int]
) -> dict[str, ir.Attribute | None]:
    """The mark of a buffer, with other separators."""
    kept = {k: v for k, v in said.items() if k != "axis_separators"}
    if separators:
        kept["axis_separators"] = list(separators)
    return {marks.BUFFER: to_attribute(kept) if kept else None}
