"""Writes buffers as memrefs, with attributes for properties that the type lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.tir import attribute_names, buffer_type
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion
from relax_mlir.objects.write.prim_expr import PrimExprWriter

__all__ = [
    "VIEWS",
    "base_buffer",
    "buffer_and_views",
    "buffer_attributes",
    "check_region_shape",
    "memref_type",
    "region_subview",
    "replace_buffer",
    "retype_view",
    "retype_views",
]

VIEWS = frozenset({"memref.subview", "memref.reinterpret_cast", "memref.cast"})
_ANY = ir.ShapedType.get_dynamic_size()


def base_buffer(value: ir.Value) -> ir.Value:
    """The buffer that owns the memory of a view or a declared buffer.

    Other buffers are returned as they are.
    """
    source = _source(value)
    while source is not None:
        value, source = source, _source(source)
    return value


def _source(value: ir.Value) -> ir.Value | None:
    """The buffer that a value is a view of, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in (*VIEWS, "tir.decl_buffer"):
        return None
    source = owner.operands[0]
    if owner.name in VIEWS:
        return source
    pointer = source.owner
    is_address = not isinstance(pointer, ir.Block) and pointer.name == "tir.address"
    return pointer.operands[0] if is_address else None


def buffer_and_views(buffer: ir.Value) -> list[ir.Value]:
    """A buffer, its views, and the buffers declared at its address, transitively."""
    attributes = [buffer]
    for use in buffer.uses:
        owner = use.owner.operation
        if owner.name in VIEWS:
            attributes += buffer_and_views(owner.results[0])
        elif owner.name == "tir.address":
            declared = [u.owner.operation for u in owner.results[0].uses]
            for op in declared:
                if op.name == "tir.decl_buffer":
                    attributes += buffer_and_views(op.results[0])
    return attributes


def memref_type(buffer: Buffer) -> ir.MemRefType:
    """The memref type of a compact buffer."""
    shape = [s.value if isinstance(s, prim.IntImm) else _ANY for s in buffer.shape]
    dense = buffer_type([], dtypes.dtype(buffer.dtype))
    space = buffer.scope()
    memory = None if space == "global" else ir.StringAttr.get(space)
    return ir.MemRefType.get(shape, dense.element_type, memory_space=memory)


def buffer_attributes(buffer: Buffer) -> dict[str, ir.Attribute]:
    """The attributes of a buffer that its memref type does not carry."""
    attributes: dict[str, ir.Attribute] = {}
    if not dtypes.dtype(buffer.dtype).is_implied_by_memref:
        attributes[attribute_names.DTYPE] = ir.StringAttr.get(buffer.dtype)
    sizes = {s.dtype for s in buffer.shape}
    if sizes == {"int64"}:
        attributes[attribute_names.SIZE_DTYPE] = ir.StringAttr.get("int64")
    extras = _extras(buffer)
    if extras:
        attributes[attribute_names.BUFFER] = to_attribute(extras)
    return attributes


def _extras(buffer: Buffer) -> dict[str, Any]:
    """The properties of a buffer that differ from the defaults."""
    offset = buffer.elem_offset
    attributes = {
        "align": buffer.data_alignment if buffer.data_alignment != 64 else None,
        "offset_factor": buffer.offset_factor if buffer.offset_factor != 1 else None,
        "buffer_type": "auto_broadcast" if buffer.buffer_type == 2 else None,
        "axis_separators": list(buffer.axis_separators) or None,
        "strides": [str(s) for s in buffer.strides] or None,
        "elem_offset": None if _is_zero(offset) else str(offset),
    }
    return {key: value for key, value in attributes.items() if value is not None}


def _is_zero(expr: prim.PrimExpr) -> bool:
    return isinstance(expr, prim.IntImm) and expr.value == 0


def check_region_shape(buffer: Buffer, region: BufferRegion) -> None:
    """Checks that a matched buffer has the shape of its region.

    Raises:
        ValueError: the shapes differ.
    """
    extents = [r.extent for r in region.region]
    static = [e.value if isinstance(e, prim.IntImm) else _ANY for e in extents]
    shape = [s.value if isinstance(s, prim.IntImm) else _ANY for s in buffer.shape]
    _kept_dims(static, shape)


def region_subview(
    writer: PrimExprWriter, source: ir.Value, buffer: Buffer, region: BufferRegion
) -> ir.Value:
    """Creates the subview of a region, dropping unit dimensions that the buffer lacks."""
    offsets = [writer.index(r.min) for r in region.region]
    extents = [r.extent for r in region.region]
    static = [e.value if isinstance(e, prim.IntImm) else _ANY for e in extents]
    sizes = [writer.index(e) for e in extents if not isinstance(e, prim.IntImm)]
    rank = len(extents)
    kept = _kept_dims(static, memref_type(buffer).shape)
    strides, _ = ir.MemRefType(source.type).get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(_ANY, [strides[i] for i in kept])
    old = ir.MemRefType(source.type)
    type_ = ir.MemRefType.get(
        [static[i] for i in kept], old.element_type, layout, old.memory_space
    )
    op = ir.Operation.create(
        "memref.subview",
        results=[type_],
        operands=[source, *offsets, *sizes],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get([_ANY] * rank),
            "static_sizes": ir.DenseI64ArrayAttr.get(static),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, rank, len(sizes), 0]),
            attribute_names.MATCH: ir.UnitAttr.get(),
            attribute_names.NAME: ir.StringAttr.get(buffer.name),
            **buffer_attributes(buffer),
        },
    )
    return op.results[0]


def replace_buffer(old: ir.Value, new: ir.Value) -> None:
    """Replaces a buffer by one whose type may differ, and retypes its views."""
    old.replace_all_uses_with(new)
    retype_views(new)


def retype_views(buffer: ir.Value) -> None:
    """Updates the types of a buffer's views, transitively."""
    for use in list(buffer.uses):
        if use.owner.name == "memref.subview":
            retype_view(use.owner.operation)


def retype_view(view: ir.Operation) -> None:
    """Updates the type of a view to the memory space, elements and strides of its source."""
    type_ = _view_type(view)
    if type_ == view.results[0].type:
        return
    with ir.InsertionPoint(view), view.location:
        retyped = ir.Operation.create(
            view.name,
            results=[type_],
            operands=list(view.operands),
            attributes={name: view.attributes[name] for name in view.attributes},
        )
    replace_buffer(view.results[0], retyped.results[0])
    view.erase()


def _view_type(view: ir.Operation) -> ir.MemRefType:
    """The type of a ``memref.subview``, as MLIR infers it from its source."""
    source, old = (ir.MemRefType(v.type) for v in (view.operands[0], view.results[0]))
    offsets, sizes, steps = (
        list(ir.DenseI64ArrayAttr(view.attributes[f"static_{name}"]))
        for name in ("offsets", "sizes", "strides")
    )
    strides, offset = source.get_strides_and_offset()
    for start, stride in zip(offsets, strides, strict=True):
        offset = _ANY if _ANY in (offset, start, stride) else offset + start * stride
    wide = [
        _ANY if _ANY in (stride, step) else stride * step
        for stride, step in zip(strides, steps, strict=True)
    ]
    kept = _kept_dims(sizes, old.shape)
    layout = ir.StridedLayoutAttr.get(offset, [wide[i] for i in kept])
    return ir.MemRefType.get(
        [sizes[i] for i in kept], source.element_type, layout, source.memory_space
    )


def _kept_dims(sizes: Sequence[int], shape_: Sequence[int]) -> list[int]:
    """The dimensions of a region that a shape keeps; the others have size 1."""
    dropped = len(sizes) - len(shape_)
    kept: list[int] = []
    for number, size in enumerate(sizes):
        if dropped and size == 1:
            dropped -= 1
        else:
            kept.append(number)
    attributes = [sizes[i] for i in kept]
    pairs = zip(attributes, shape_, strict=False)
    if dropped or any(_ANY not in pair and pair[0] != pair[1] for pair in pairs):
        raise ValueError(
            f"buffer of shape {list(shape_)}: expected the shape of its region, "
            f"{list(sizes)}"
        )
    return kept
