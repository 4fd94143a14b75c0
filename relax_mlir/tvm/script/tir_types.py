"""Types of scalars, pointers and buffers in scripts: ``T.int32``, ``T.Buffer``, ..."""

from __future__ import annotations

from typing import Any

from relax_mlir.dialects import dtypes
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import instance_of, integer_of, sequence_of
from relax_mlir.objects.prim import PrimExpr, SizeVar, Var
from relax_mlir.objects.prim.constants import type_name
from relax_mlir.objects.prim.pointers import Pointer, PointerType
from relax_mlir.objects.stmt.buffer import Buffer as TirBuffer
from relax_mlir.tvm.script.tir_program import current_prim_func_or_none

__all__ = ["SCALAR_TYPES", "Buffer", "Handle", "ScalarType", "handle"]

_WIDTHS = (8, 16, 32, 64)
_NAMES = {
    **{f"{t}{w}": f"{t}{w}" for t in ("int", "uint") for w in (2, 4, *_WIDTHS)},
    **{f"float{w}": f"float{w}" for w in _WIDTHS[1:]},
    **{f"i{w}": f"int{w}" for w in _WIDTHS},
    **{f"u{w}": f"uint{w}" for w in _WIDTHS},
    **{f"f{w}": f"float{w}" for w in _WIDTHS[1:]},
    **{name: name for name in (*dtypes.NARROW_FLOATS, "bfloat16")},
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "bf16": "bfloat16",
    "bool": "bool",
    "boolean": "bool",
}
_LANES = (2, 4, 8, 16, 32, 64)


class ScalarType:
    """An element type; a call makes a variable, a constant or a cast."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(
        self, expr: Any = None, *, is_size_var: bool = False, **options: Any
    ) -> PrimExpr:
        """Makes a scalar of this type.

        Args:
            expr: a number or expression to convert; None for a new variable.
            is_size_var: whether to make a ``SizeVar``, a nonnegative size.
        """
        if expr is None:
            variable = (SizeVar if is_size_var else Var)("", self.dtype)
            state = current_prim_func_or_none()
            return variable if state is None else state.add_unnamed(variable)
        if isinstance(expr, str):
            return prim.const(float(expr), self.dtype)
        if isinstance(expr, (bool, int, float)):
            return prim.const(expr, self.dtype)
        return prim.cast(self.dtype, expr)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"

    def __str__(self) -> str:
        return self.dtype

    def __eq__(self, other: object) -> bool:
        return str(other) == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


SCALAR_TYPES = {name: ScalarType(dtype) for name, dtype in _NAMES.items()}
SCALAR_TYPES |= {
    f"{name}x{lanes}": ScalarType(f"{name}x{lanes}")
    for name in set(_NAMES.values())
    for lanes in _LANES
}
SCALAR_TYPES |= {
    f"{old}_float8x{lanes}": ScalarType(f"float8_{old}{end}x{lanes}")
    for old, end in (("e4m3", "fn"), ("e5m2", ""))
    for lanes in _LANES
}


class Handle:
    """The pointer type; a call makes a variable of this type."""

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", **options: Any
    ) -> Var:
        """Makes a pointer variable.

        Args:
            dtype: element type of the pointee.
            storage_scope: memory scope of the pointee.
        """
        element = "void" if dtype is None else type_name(dtype) or "void"
        is_known = element != "void" or storage_scope != "global"
        kind = PointerType(element, storage_scope)
        pointer = Pointer("v", kind if is_known else None)
        state = current_prim_func_or_none()
        return pointer if state is None else state.add_unnamed(pointer)

    def __getitem__(self, dtype: Any) -> Var:
        """Makes a pointer variable, for the annotation ``T.handle[dtype]``."""
        return self(dtype)

    def __repr__(self) -> str:
        return "T.handle"


handle = Handle()


class _BufferType:
    """The buffer type: ``T.Buffer(shape, dtype)``, or TVM 0.9's ``T.Buffer[shape, dtype]``."""

    def __call__(
        self,
        shape: Any,
        dtype: Any = "float32",
        data: Var | None = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
        name: str = "",
        **options: Any,
    ) -> TirBuffer:
        """Makes a buffer.

        Args:
            shape: its sizes: numbers, scalar expressions, or text.
            dtype: element type.
            data: the pointer to its memory.
            strides: strides in elements, per dimension; by default row-major.
            elem_offset: offset of the first element from ``data``, in elements.
            scope: memory scope.
            align: alignment of ``data``, in bytes; 0 for the default.
            offset_factor: a divisor of ``elem_offset``.
            buffer_type: ``auto_broadcast``, or empty.
            axis_separators: boundaries between groups of axes that are flattened together.
            name: its name.
        """
        if isinstance(shape, str):
            raise TypeError(f"expected buffer sizes, got the text `{shape}`")
        instance_of(name, str, "T.Buffer: `name`", "a string")
        buffer = TirBuffer(
            _sizes(shape),
            dtype,
            name or "buffer",
            data,
            None if strides is None else _sizes(strides),
            _size(elem_offset),
            scope,
            integer_of(align, "T.Buffer: `align`") or -1,
            offset_factor,
            buffer_type,
            axis_separators,
        )
        state = current_prim_func_or_none()
        return buffer if state is None or name else state.add_unnamed(buffer)

    def __getitem__(self, keys: Any) -> TirBuffer:
        if not isinstance(keys, tuple):
            return self(keys)
        if len(keys) >= 2 and not isinstance(keys[1], str):
            return self(keys)
        return self(*keys)

    def __repr__(self) -> str:
        return "T.Buffer"


def _sizes(shape: Any) -> list[Any]:
    listed = shape if isinstance(shape, (tuple, list)) else [shape]
    if hasattr(shape, "__iter__") and not isinstance(shape, (tuple, list, PrimExpr)):
        listed = list(sequence_of(shape, "sizes", "sizes"))
    return [_size(s) for s in listed]


def _size(size: Any) -> Any:
    """Converts a size, which may be text."""
    if not isinstance(size, str):
        return size
    state = current_prim_func_or_none()
    if state is None:
        raise TypeError(f"size `{size}` is text: expected a number or a variable")
    return state.parse_size(size)


Buffer = _BufferType()
