"""Replacing a buffer by one of another shape, storage scope or element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.objects.stmt.buffer import Buffer
from relax_mlir.objects.stmt.explicit_regions import forget_explicit_regions
from relax_mlir.objects.write.memref import replace_buffer, retype_view
from relax_mlir.objects.write.prim_expr import PrimExprWriter
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import accesses, edit, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.state import ScheduleState

__all__ = ["buffer_object", "element_dtype", "replace_buffer_type"]


def replace_buffer_type(
    state: ScheduleState,
    buffer: ir.Value,
    indices: IndexSymbols,
    *,
    shape: Sequence[Dim] | None = None,
    element: ir.Type | None = None,
    memory: str | None = None,
    changed: Mapping[str, ir.Attribute | None] | None = None,
) -> ir.Value:
    """Replaces a buffer by one of another type, including all its uses.

    The caller rewrites accesses that do not fit the new type.

    Args:
        shape: the new shape.
        element: the new element type.
        memory: the new storage scope.
        changed: attributes to set; None removes one.
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
    if shape is not None:  # regions of it have other indices now
        owner = buffer.owner
        definition = owner.owner if isinstance(owner, ir.Block) else owner
        function = tree.function_of(definition.operation)
        for block in filter(tree.is_block, tree.subtree(function)):
            forget_explicit_regions(block, accesses.buffer_name(buffer))
    if accesses.is_argument(buffer):
        _retype_argument(state, buffer, type_, sizes, changed or {})
        return buffer
    return _retype_allocation(state, buffer, type_, sizes, changed or {}, indices)


def _merge_attributes(
    attributes: Mapping[str, ir.Attribute], changed: Mapping[str, ir.Attribute | None]
) -> dict[str, ir.Attribute]:
    merged = {**attributes, **changed}
    return {name: value for name, value in merged.items() if value is not None}


def _retype_allocation(
    state: ScheduleState,
    buffer: ir.Value,
    type_: ir.MemRefType,
    sizes: Sequence[Dim],
    changed: Mapping[str, ir.Attribute | None],
    indices: IndexSymbols,
) -> ir.Value:
    old = buffer.owner.operation
    attributes = _merge_attributes(edit.attributes_of(old), changed)
    attributes["shape"] = tensors.shape_attr(sizes)
    with edit.insertion_point_before(old):
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
    argument_attrs = [
        ir.DictAttr(a) for a in ir.ArrayAttr(function.attributes["arg_attrs"])
    ]
    attributes = {a.name: a.attr for a in argument_attrs[number]}
    is_static = all(isinstance(d, int) for d in sizes)
    shape = None if is_static else tensors.shape_attr(sizes)
    attributes = _merge_attributes(attributes, {**changed, "tir.shape": shape})
    argument_attrs[number] = ir.DictAttr.get(attributes)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(argument_attrs)
    for use in list(buffer.uses):
        if use.owner.name == "memref.subview":
            retype_view(use.owner.operation)
    name = tree.string_attr(function, "sym_name")
    state.module.scope(name).arguments.pop(number, None)


def element_dtype(buffer: ir.Value) -> str:
    """The TVM dtype of the elements."""
    from relax_mlir.dialects import dtypes

    mark = accesses.buffer_dtype_attributes(buffer).get(attribute_names.DTYPE)
    if mark is not None:
        return ir.StringAttr(mark).value
    return dtypes.from_mlir(ir.MemRefType(buffer.type).element_type).name


def buffer_object(writer: PrimExprWriter, buffer: ir.Value) -> Buffer:
    """A TIR buffer object bound to a memref, for expressions emitted into the function."""
    rank = len(accesses.buffer_shape(buffer))
    made = Buffer([1] * rank, element_dtype(buffer), accesses.buffer_name(buffer))
    writer.define_buffer(made, buffer)
    return made
