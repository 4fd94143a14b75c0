"""Buffers that scripts take and make: ``T.match_buffer``, ``T.alloc_buffer``, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects.buffer import Buffer as ProgramBuffer
from relax_mlir.objects.buffer import BufferLoad, BufferRegion
from relax_mlir.objects.prim import IntImm, Range, Var
from relax_mlir.script.tir_frames import AllocateFrame, DeclareFrame
from relax_mlir.script.tir_program import Scope, current_program
from relax_mlir.script.tir_types import Buffer

__all__ = [
    "alloc_buffer",
    "allocate",
    "allocate_const",
    "buffer_decl",
    "decl_buffer",
    "match_buffer",
    "regions_of",
    "sblock_alloc_buffer",
]


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = None,
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
    **options: Any,
) -> ProgramBuffer:
    """The buffer that a pointer is; or, in a block, a name for a box of a buffer.

    Args:
        param: a parameter of the program, or the box.
        shape: sizes; those of the box if left out.
        dtype: element type; that of the box, or float32.
        data, strides, elem_offset, scope, align, offset_factor, buffer_type,
            axis_separators: as for ``T.Buffer``.

    Raises:
        ValueError: a pointer without a shape.
    """
    program = current_program("T.match_buffer")
    kind = "" if buffer_type == "default" else buffer_type
    layout = {
        "data": data,
        "strides": strides,
        "elem_offset": elem_offset,
        "align": max(align, 0),
        "offset_factor": offset_factor,
        "buffer_type": kind,
        "axis_separators": axis_separators,
    }
    if isinstance(param, (ProgramBuffer, BufferLoad, BufferRegion)):
        region = _region(param)
        source = region.buffer
        sizes = [r.extent for r in region.region] if shape is None else shape
        if scope == "global":
            scope = source.scope()
        buffer = Buffer(sizes, dtype or source.dtype, scope=scope, **layout)
        return program.writer.match_buffer(buffer, region)
    if not isinstance(param, Var) or param.dtype != "handle":
        raise TypeError(f"expected a pointer or a part of a buffer, got {shown(param)}")
    if shape is None:
        raise ValueError("`T.match_buffer` of a pointer needs a shape")
    buffer = Buffer(shape, dtype or "float32", scope=scope, **layout)
    program.writer.match_param(param, buffer)
    return buffer


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
    **options: Any,
) -> ProgramBuffer:
    """A new buffer of the block, or of the program; see ``T.Buffer``."""
    made = Buffer(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        max(align, 0),
        offset_factor,
        "" if buffer_type == "default" else buffer_type,
        axis_separators,
    )
    return current_program("T.alloc_buffer").writer.alloc(made)


sblock_alloc_buffer = alloc_buffer


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    *args: Any,
    **options: Any,
) -> Any:
    """A buffer in memory that is there already; without ``data``, a new one."""
    if data is None:
        return alloc_buffer(shape, dtype, None, *args, **options)
    made = Buffer(shape, dtype, data, *args, **options)
    return DeclareFrame(made)


def allocate(
    extents: Any,
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> Scope:
    """Memory for what follows; gives a pointer to it, for ``T.decl_buffer``."""
    return AllocateFrame(Buffer(extents, dtype, scope=scope), annotations or {})


def allocate_const(
    data: Sequence[float],
    dtype: str,
    extents: Any,
    annotations: Mapping[str, Any] | None = None,
) -> Scope:
    """Memory that holds constants, for what follows; gives a pointer to it.

    Args:
        data: the elements, from the first one on.
        dtype: their type.
        extents: sizes.
        annotations: more that is said of it.

    Raises:
        ValueError: there are not as many elements as the sizes tell.
    """
    memory = Buffer(extents, dtype)
    sizes = [s.value for s in memory.shape if isinstance(s, IntImm)]
    if len(sizes) != len(memory.shape):
        raise ValueError(f"T.allocate_const: expected known sizes, got {extents}")
    count = math.prod(sizes)
    if len(data) != count:
        raise ValueError(
            f"`T.allocate_const`: expected {count} elements, got {len(data)}"
        )
    return AllocateFrame(memory, annotations or {}, data)


buffer_decl = Buffer


def regions_of(parts: Sequence[Any]) -> list[BufferRegion]:
    """The boxes that ``T.reads`` and ``T.writes`` list, some of them in lists.

    Raises:
        TypeError: something there is none.
    """
    flat: list[Any] = []
    for part in parts:
        flat += part if isinstance(part, (list, tuple)) else [part]
    return list(map(_region, flat))


def _region(part: Any) -> BufferRegion:
    if isinstance(part, BufferRegion):
        return part
    if isinstance(part, ProgramBuffer):
        return BufferRegion(part, [Range(0, size) for size in part.shape])
    if isinstance(part, BufferLoad):
        points = [Range.from_min_extent(i, 1) for i in part.indices]
        return BufferRegion(part.buffer, points)
    raise TypeError(f"expected a part of a buffer, got {shown(part)}")
