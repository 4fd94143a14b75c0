"""Primitives that change the dtype and axis separators of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.tir import Scalar, attribute_names, buffer_type
from relax_mlir.dialects.tir.scalars import emit
from relax_mlir.errors import ScheduleError
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.prim.value_types import cast_value
from relax_mlir.rewrite import patterns
from relax_mlir.tvm.tir.schedule import accesses, buffers, edit, tree
from relax_mlir.tvm.tir.schedule.layout import check_no_opaque_access
from relax_mlir.tvm.tir.schedule.state import ScheduleState

__all__ = ["set_axis_separator", "unsafe_set_dtype"]


def unsafe_set_dtype(
    state: ScheduleState, block: ir.Operation, number: int, dtype: str
) -> None:
    """Change the element type; see :meth:`Schedule.unsafe_set_dtype`."""
    where = "unsafe_set_dtype"
    buffer = accesses.buffer_at_index(block, number, where, is_write=True)
    if accesses.is_argument(buffer):
        raise ScheduleError(
            f"{where}: buffer `{accesses.buffer_name(buffer)}` is a parameter: expected "
            "one allocated in the function"
        )
    check_no_opaque_access(buffer, where)
    old, new = buffers.element_dtype(buffer), dtype
    if old == new:
        return
    is_marked = not dtypes.dtype(new).is_implied_by_memref
    with state.change(block) as indices:
        element = buffer_type([], dtypes.dtype(new)).element_type
        mark = {attribute_names.DTYPE: ir.StringAttr.get(new) if is_marked else None}
        made = buffers.replace_buffer_type(
            state, buffer, indices, element=element, changed=mark
        )
        for use in list(made.uses):
            _convert(use.owner.operation, made, old, new)
        edit.rematerialize_all(tree.function_of(block))


def _convert(op: ir.Operation, buffer: ir.Value, old: str, new: str) -> None:
    """Convert stored values to the new type, and loaded values back."""
    with edit.insertion_point_before(op):
        if op.name == "memref.store":
            stored = Scalar(op.operands[0], dtypes.dtype(old))
            op.operands[0] = cast_value(stored, dtypes.dtype(new))
            return
        element = ir.MemRefType(buffer.type).element_type
        loaded = emit("memref.load", element, buffer, *list(op.operands)[1:])
        for use in list(op.results[0].uses):
            user = use.owner.operation
            if user.name == "arith.index_cast":  # indices are read from any type
                with edit.insertion_point_before(user):
                    index = emit(user.name, user.results[0].type, loaded)
                patterns.replace(user, index)
        value = cast_value(Scalar(loaded, dtypes.dtype(new)), dtypes.dtype(old))
    patterns.replace(op, value)


def set_axis_separator(
    state: ScheduleState,
    block: ir.Operation,
    buffer: ir.Value,
    separators: Sequence[int],
) -> None:
    """Set the axis separators; see :meth:`Schedule.set_axis_separator`."""
    rank = len(accesses.buffer_shape(buffer))
    if any(not 0 <= s <= rank for s in separators) or list(separators) != sorted(
        set(separators)
    ):
        raise ScheduleError(
            f"set_axis_separator: buffer `{accesses.buffer_name(buffer)}` has {rank} "
            f"dimensions: expected increasing numbers from 0 to {rank}, got "
            f"{list(separators)}"
        )
    with state.change(block) as indices:
        properties = accesses.buffer_properties(buffer)
        made = buffers.replace_buffer_type(
            state, buffer, indices, changed=_separated(properties, separators)
        )
        for use in list(made.uses):
            op = use.owner.operation
            if op.name == "memref.subview":
                known = (
                    dict(from_attribute(op.attributes[attribute_names.BUFFER]))
                    if attribute_names.BUFFER in op.attributes
                    else {}
                )
                for name, value in _separated(known, separators).items():
                    if value is not None:
                        op.attributes[name] = value
                    elif name in op.attributes:
                        del op.attributes[name]


def _separated(
    properties: dict[str, object], separators: Sequence[int]
) -> dict[str, ir.Attribute | None]:
    """The buffer attribute with other separators."""
    kept = {k: v for k, v in properties.items() if k != "axis_separators"}
    if separators:
        kept["axis_separators"] = list(separators)
    return {attribute_names.BUFFER: to_attribute(kept) if kept else None}
