"""Buffer declarations of scripts: ``T.match_buffer``, ``T.alloc_buffer``, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.prim import IntImm, Range, Var
from relax_mlir.objects.stmt.buffer import Buffer as TirBuffer
from relax_mlir.objects.stmt.buffer import BufferLoad, BufferRegion
from relax_mlir.tvm.script.tir_frames import AllocateFrame, DeclareFrame
from relax_mlir.tvm.script.tir_program import Scope, current_prim_func
from relax_mlir.tvm.script.tir_types import Buffer

__all__ = [
    "alloc_buffer",
    "allocate",
    "allocate_const",
    "buffer_decl",
    "buffer_regions",
    "decl_buffer",
    "match_buffer",
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
) -> TirBuffer:
    """Binds a buffer to a handle parameter; in a block, to a region of another buffer.

    Args:
        param: a handle parameter of the PrimFunc, or a buffer region.
        shape: sizes; by default those of the region.
        dtype: element type; by default that of the region, or float32.
        data, strides, elem_offset, scope, align, offset_factor, buffer_type,
            axis_separators: as for ``T.Buffer``.

    Raises:
        ValueError: a handle is given without a shape.
    """
    state = current_prim_func("T.match_buffer")
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
    if isinstance(param, (TirBuffer, BufferLoad, BufferRegion)):
        region = _region(param)
        source = region.buffer
        sizes = [r.extent for r in region.region] if shape is None else shape
        if scope == "global":
            scope = source.scope()
        buffer = Buffer(sizes, dtype or source.dtype, scope=scope, **layout)
        return state.writer.match_buffer(buffer, region)
    if not isinstance(param, Var) or param.dtype != "handle":
        raise TypeError(
            f"expected a handle or a buffer region, got {short_repr(param)}"
        )
    if shape is None:
        raise ValueError("`T.match_buffer` of a handle: expected a shape")
    buffer = Buffer(shape, dtype or "float32", scope=scope, **layout)
    state.writer.match_param(param, buffer)
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
) -> TirBuffer:
    """Allocates a buffer in the block, or in the PrimFunc; see ``T.Buffer``."""
    buffer = Buffer(
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
    return current_prim_func("T.alloc_buffer").writer.alloc(buffer)


sblock_alloc_buffer = alloc_buffer


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Var | None = None,
    *args: Any,
    **options: Any,
) -> Any:
    """Declares a buffer over existing memory; without ``data``, allocates one."""
    if data is None:
        return alloc_buffer(shape, dtype, None, *args, **options)
    return DeclareFrame(Buffer(shape, dtype, data, *args, **options))


def allocate(
    extents: Any,
    dtype: Any,
    scope: str = "global",
    condition: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> Scope:
    """Allocates memory in a scope; its value is a pointer, for ``T.decl_buffer``."""
    return AllocateFrame(Buffer(extents, dtype, scope=scope), annotations or {})


def allocate_const(
    data: Sequence[float],
    dtype: str,
    extents: Any,
    annotations: Mapping[str, Any] | None = None,
) -> Scope:
    """Allocates constant memory in a scope; its value is a pointer.

    Args:
        data: the elements, in row-major order.
        dtype: element type.
        extents: sizes.
        annotations: annotations of the allocation.

    Raises:
        ValueError: a size is symbolic, or the number of elements is wrong.
    """
    memory = Buffer(extents, dtype)
    sizes = [s.value for s in memory.shape if isinstance(s, IntImm)]
    if len(sizes) != len(memory.shape):
        raise ValueError(f"T.allocate_const: expected constant sizes, got {extents}")
    count = math.prod(sizes)
    if len(data) != count:
        raise ValueError(
            f"`T.allocate_const`: expected {count} elements, got {len(data)}"
        )
    return AllocateFrame(memory, annotations or {}, data)


buffer_decl = Buffer


def buffer_regions(parts: Sequence[Any]) -> list[BufferRegion]:
    """Converts the arguments of ``T.reads`` and ``T.writes``, possibly lists, to regions.

    Raises:
        TypeError: an argument is not a buffer, element or region.
    """
    flat: list[Any] = []
    for part in parts:
        flat += part if isinstance(part, (list, tuple)) else [part]
    return list(map(_region, flat))


def _region(part: Any) -> BufferRegion:
    if isinstance(part, BufferRegion):
        return part
    if isinstance(part, TirBuffer):
        return BufferRegion(part, [Range(0, size) for size in part.shape])
    if isinstance(part, BufferLoad):
        points = [Range.from_min_extent(i, 1) for i in part.indices]
        return BufferRegion(part.buffer, points)
    raise TypeError(f"expected a buffer region, got {short_repr(part)}")
