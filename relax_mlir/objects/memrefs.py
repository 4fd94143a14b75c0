"""Buffers of tensor programs as memrefs, and what memrefs do not say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes
from relax_mlir.dialects.tir import buffer_type, marks
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.term_writer import TermWriter

__all__ = [
    "VIEWS",
    "buffer_marks",
    "check_part",
    "matched_part",
    "memref_type",
    "parts_of",
    "replace_buffer",
    "retype_view",
    "retype_views",
    "whole_buffer",
]

VIEWS = frozenset({"memref.subview", "memref.reinterpret_cast", "memref.cast"})
_ANY = ir.ShapedType.get_dynamic_size()


def whole_buffer(value: ir.Value) -> ir.Value:
    """The buffer in whose memory another one lies: a box of it, or one at its address.

    A buffer with memory of its own is itself.
    """
    source = _source(value)
    while source is not None:
        value, source = source, _source(source)
    return value


def _source(value: ir.Value) -> ir.Value | None:
    """What a buffer is a view of, if it is one."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in (*VIEWS, "tir.decl_buffer"):
        return None
    source = owner.operands[0]
    if owner.name in VIEWS:
        return source
    pointer = source.owner
    is_address = not isinstance(pointer, ir.Block) and pointer.name == "tir.address"
    return pointer.operands[0] if is_address else None


def parts_of(buffer: ir.Value) -> list[ir.Value]:
    """A buffer, and all that lie in its memory as boxes of it or at its address."""
    found = [buffer]
    for use in buffer.uses:
        owner = use.owner.operation
        if owner.name in VIEWS:
            found += parts_of(owner.results[0])
        elif owner.name == "tir.address":
            declared = [u.owner.operation for u in owner.results[0].uses]
            for op in declared:
                if op.name == "tir.decl_buffer":
                    found += parts_of(op.results[0])
    return found


def memref_type(buffer: Buffer) -> ir.MemRefType:
    """The memref that a dense buffer is."""
    shape = [s.value if isinstance(s, prim.IntImm) else _ANY for s in buffer.shape]
    dense = buffer_type([], dtypes.dtype(buffer.dtype))
    space = buffer.scope()
    memory = None if space == "global" else ir.StringAttr.get(space)
    return ir.MemRefType.get(shape, dense.element_type, memory_space=memory)


def buffer_marks(buffer: Buffer) -> dict[str, ir.Attribute]:
    """What a memref does not say of a buffer."""
    found: dict[str, ir.Attribute] = {}
    if not dtypes.dtype(buffer.dtype).is_told_by_buffers:
        found[marks.DTYPE] = ir.StringAttr.get(buffer.dtype)
    sizes = {s.dtype for s in buffer.shape}
    if sizes == {"int64"}:
        found[marks.SIZE_DTYPE] = ir.StringAttr.get("int64")
    extras = _extras(buffer)
    if extras:
        found[marks.BUFFER] = to_attribute(extras)
    return found


def _extras(buffer: Buffer) -> dict[str, Any]:
    """What is unusual of a buffer."""
    offset = buffer.elem_offset
    found = {
        "align": buffer.data_alignment if buffer.data_alignment != 64 else None,
        "offset_factor": buffer.offset_factor if buffer.offset_factor != 1 else None,
        "buffer_type": "auto_broadcast" if buffer.buffer_type == 2 else None,
        "axis_separators": list(buffer.axis_separators) or None,
        "strides": [str(s) for s in buffer.strides] or None,
        "elem_offset": None if _is_zero(offset) else str(offset),
    }
    return {key: value for key, value in found.items() if value is not None}


def _is_zero(term: prim.PrimExpr) -> bool:
    return isinstance(term, prim.IntImm) and term.value == 0


def check_part(buffer: Buffer, region: BufferRegion) -> None:
    """Check that a buffer has the shape of a box.

    Raises:
        ValueError: it has another one.
    """
    extents = [r.extent for r in region.region]
    static = [e.value if isinstance(e, prim.IntImm) else _ANY for e in extents]
    shape = [s.value if isinstance(s, prim.IntImm) else _ANY for s in buffer.shape]
    _kept(static, shape)


def matched_part(
    terms: TermWriter, source: ir.Value, buffer: Buffer, region: BufferRegion
) -> ir.Value:
    """The box of a memref, without the dimensions that the buffer does not have."""
    offsets = [terms.index(r.min) for r in region.region]
    extents = [r.extent for r in region.region]
    static = [e.value if isinstance(e, prim.IntImm) else _ANY for e in extents]
    sizes = [terms.index(e) for e in extents if not isinstance(e, prim.IntImm)]
    rank = len(extents)
    kept = _kept(static, memref_type(buffer).shape)
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
            marks.MATCH: ir.UnitAttr.get(),
            marks.NAME: ir.StringAttr.get(buffer.name),
            **buffer_marks(buffer),
        },
    )
    return op.results[0]


def replace_buffer(old: ir.Value, new: ir.Value) -> None:
    """Let all that uses a buffer use another one, of a type that may differ."""
    old.replace_all_uses_with(new)
    retype_views(new)


def retype_views(buffer: ir.Value) -> None:
    """Give the boxes of a buffer, and their boxes, the types that it gives them."""
    for use in list(buffer.uses):
        if use.owner.name == "memref.subview":
            retype_view(use.owner.operation)


def retype_view(view: ir.Operation) -> None:
    """Give a box of a buffer the memory, the elements and the strides of its buffer."""
    type_ = _view_type(view)
    if type_ == view.results[0].type:
        return
    with ir.InsertionPoint(view), view.location:
        made = ir.Operation.create(
            view.name,
            results=[type_],
            operands=list(view.operands),
            attributes={name: view.attributes[name] for name in view.attributes},
        )
    replace_buffer(view.results[0], made.results[0])
    view.erase()


def _view_type(view: ir.Operation) -> ir.MemRefType:
    """The type of a ``memref.subview``, as MLIR infers it from that of its source."""
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
    kept = _kept(sizes, old.shape)
    layout = ir.StridedLayoutAttr.get(offset, [wide[i] for i in kept])
    return ir.MemRefType.get(
        [sizes[i] for i in kept], source.element_type, layout, source.memory_space
    )


def _kept(sizes: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The dimensions of a box that a buffer of a shape has; others are of size 1."""
    dropped = len(sizes) - len(wanted)
    kept: list[int] = []
    for number, size in enumerate(sizes):
        if dropped and size == 1:
            dropped -= 1
        else:
            kept.append(number)
    found = [sizes[i] for i in kept]
    pairs = zip(found, wanted, strict=False)
    if dropped or any(_ANY not in pair and pair[0] != pair[1] for pair in pairs):
        raise ValueError(
            f"buffer of shape {list(wanted)}: expected the shape of its region, "
            f"{list(sizes)}"
        )
    return kept
