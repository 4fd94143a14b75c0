"""Buffers of a program with another shape, memory or element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.tir import marks
from relax_mlir.objects.buffer import Buffer
from relax_mlir.objects.memrefs import replace_buffer, retype_view
from relax_mlir.objects.term_writer import TermWriter
from relax_mlir.tir.schedule import accesses, edit, tree
from relax_mlir.tir.schedule.indices import Indices
from relax_mlir.tir.schedule.state import ScheduleState

__all__ = ["buffer_term", "element_dtype", "retyped"]


def retyped(
    state: ScheduleState,
    buffer: ir.Value,
    indices: Indices,
    *,
    shape: Sequence[Dim] | None = None,
    element: ir.Type | None = None,
    memory: str | None = None,
    changed: Mapping[str, ir.Attribute | None] | None = None,
) -> ir.Value:
    """A buffer with another type, in place of the old one wherever that is used.

    Whoever calls this rewrites what accesses the buffer, where that does not fit.

    Args:
        shape: another shape.
        element: another element type.
        memory: another storage scope.
        changed: what else is said of it; None takes a mark away.
    """
    sizes = list(accesses.buffer_shape(buffer) if shape is None else shape)
    old = ir.MemRefType(buffer.type)
    space = old.memory_space
    if memory is not None:
        space = None if memory == "global" else ir.StringAttr.get(memory)
    dynamic = ir.ShapedType.get_dynamic_size()
    type_ = ir.MemRefType.get(
        [d if isinstance(d, int) else dynamic for d in sizes],
        old.element_type if element is None else element,
        memory_space=space,
    )
    if accesses.is_argument(buffer):
        _retype_argument(state, buffer, type_, sizes, changed or {})
        return buffer
    return _retype_allocation(state, buffer, type_, sizes, changed or {}, indices)


def _marked(
    said: Mapping[str, ir.Attribute], changed: Mapping[str, ir.Attribute | None]
) -> dict[str, ir.Attribute]:
    merged = {**said, **changed}
    return {name: value for name, value in merged.items() if value is not None}


def _retype_allocation(
    state: ScheduleState,
    buffer: ir.Value,
    type_: ir.MemRefType,
    sizes: Sequence[Dim],
    changed: Mapping[str, ir.Attribute | None],
    indices: Indices,
) -> ir.Value:
    old = buffer.owner.operation
    attributes = _marked(edit.attributes_of(old), changed)
    attributes["shape"] = tensors.shape_attr(sizes)
    with edit.point_before(old):
        made = ir.Operation.create(
            "tir.alloc_buffer",
            results=[type_],
            operands=[indices.emit(d) for d in sizes if not isinstance(d, int)],
            attributes=attributes,
        )
    replace_buffer(buffer, made.results[0])
    state.erase(old)
    return made.results[0]


def _retype_argument(
    state: ScheduleState,
    buffer: ir.Value,
    type_: ir.MemRefType,
    sizes: Sequence[Dim],
    changed: Mapping[str, ir.Attribute | None],
) -> None:
    owner = buffer.owner
    assert isinstance(owner, ir.Block)
    function = owner.owner.operation
    number = ir.BlockArgument(buffer).arg_number
    buffer.set_type(type_)
    types = [argument.type for argument in owner.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(types, [])
    )
    described = [ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes["arg_attrs"])]
    said = {a.name: a.attr for a in described[number]}
    is_static = all(isinstance(d, int) for d in sizes)
    shape = None if is_static else tensors.shape_attr(sizes)
    said = _marked(said, {**changed, "tir.shape": shape})
    described[number] = ir.DictAttr.get(said)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(described)
    for use in list(buffer.uses):
        if use.owner.name == "memref.subview":
            retype_view(use.owner.operation)
    name = tree.string_attr(function, "sym_name")
    state.module.scope(name).arguments.pop(number, None)


def element_dtype(buffer: ir.Value) -> str:
    """What a script calls the type of the elements."""
    from relax_mlir.dialects import dtypes

    said = accesses.buffer_marks(buffer).get(marks.DTYPE)
    if said is not None:
        return ir.StringAttr(said).value
    return dtypes.from_mlir(ir.MemRefType(buffer.type).element_type).name


def buffer_term(terms: TermWriter, buffer: ir.Value) -> Buffer:
    """A buffer as terms mention it, for terms that are written into the program."""
    rank = len(accesses.buffer_shape(buffer))
    made = Buffer([1] * rank, element_dtype(buffer), accesses.buffer_name(buffer))
    terms.define_buffer(made, buffer)
    return made
