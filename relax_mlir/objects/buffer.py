"""Buffers of tensor programs, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.simplify import simplify

__all__ = ["Buffer", "BufferLoad", "BufferRegion", "PointerType", "decl_buffer"]


class PointerType:
    """What a pointer points to.

    Attributes:
        element_type: a type name such as ``float32``.
        storage_scope: the memory, such as ``global`` or ``shared``.
    """

    def __init__(self, element_type: Any, storage_scope: str = "global") -> None:
        self.element_type = str(getattr(element_type, "dtype", element_type))
        self.storage_scope = storage_scope or "global"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointerType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f'T.handle("{self.element_type}", "{self.storage_scope}")'


class Pointer(Var):
    """A variable that is a pointer.

    Attributes:
        type_annotation: what it points to, if that is known.
        buffer: the buffer whose memory it is, if that is known.
    """

    __slots__ = ("buffer", "type_annotation")

    def __init__(self, name: str, type_annotation: PointerType | None = None) -> None:
        super().__init__(name, "handle")
        self.type_annotation = type_annotation
        self.buffer: Buffer | None = None


class Buffer:
    """A buffer: a name for memory, with a shape and an element type.

    Two buffers are the same only if they are one object.

    Attributes:
        name: what a script calls it.
        shape: a term per dimension.
        dtype: element type.
        data: the pointer to its memory.
        strides: a term per dimension, or none where it is dense.
        elem_offset: where the first element lies.
        data_alignment: in bytes.
        offset_factor: what ``elem_offset`` is a multiple of.
        buffer_type: 1 as usual, 2 where dimensions of size 1 broadcast.
        axis_separators: where groups of axes end.
    """

    __array_ufunc__ = None

    def __init__(
        self,
        shape: Any,
        dtype: Any = "float32",
        name: str = "buffer",
        data: Var | None = None,
        strides: Sequence[Any] | None = None,
        elem_offset: Any = None,
        scope: str = "global",
        data_alignment: int = -1,
        offset_factor: int = 0,
        buffer_type: str | int = "",
        axis_separators: Sequence[int] | None = None,
    ) -> None:
        self.name = name
        self.shape = _sizes(shape)
        self.dtype = str(getattr(dtype, "dtype", dtype or "float32"))
        self._scope = scope or "global"
        pointee = PointerType(self.dtype, self._scope)
        self.data = Pointer(name, pointee) if data is None else data
        if isinstance(self.data, Pointer):
            self.data.buffer = self.data.buffer or self
        self.strides = _sizes(strides or ())
        self.data_alignment = 64 if data_alignment <= 0 else data_alignment
        self.elem_offset = _offset(elem_offset, offset_factor, name, self.shape)
        self.offset_factor = offset_factor or 1
        self.buffer_type = 2 if buffer_type in ("auto_broadcast", 2) else 1
        self.axis_separators = tuple(axis_separators or ())

    def scope(self) -> str:
        """The memory that it lives in: ``global``, ``shared``, ``local``, ..."""
        return self._scope

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def vload(self, begin: Any, dtype: str | None = None) -> BufferLoad:
        """One element."""
        return BufferLoad(self, _indices(begin))

    def vstore(self, begin: Any, value: Any) -> Any:
        """The statement that writes one element."""
        from relax_mlir.objects.stmt import BufferStore

        return BufferStore(self, value, _indices(begin))

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> prim.Call:
        """A pointer into it for a foreign function.

        Args:
            access_mask: ``r``, ``w`` or both, or the sum of 1 and 2.
            ptr_type: type of the pointer.
            content_lanes: vector length of an element; only 1 there is.
            offset: elements before what is accessed.
            extent: elements that are accessed; all that follow by default.

        Raises:
            ValueError: the mask has another letter.
        """
        mask = _access_mask(access_mask)
        count = prim.convert(1)
        for size in self.shape:
            count = count * size
        rest = count - offset if extent is None else prim.convert(extent)
        kind = prim.Call(self.dtype, "type_annotation", [])
        start = self.elem_offset + offset
        return prim.Call(
            ptr_type, "tvm_access_ptr", [kind, self.data, start, rest, mask]
        )

    def offset_of(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """Where an element lies: its number in the flat buffer."""
        total: Any = self.elem_offset
        for index, stride in zip(indices, self.dense_strides(), strict=True):
            total = total + index * stride
        return [prim.convert(total)]

    def dense_strides(self) -> tuple[PrimExpr, ...]:
        """Its strides, also where they are not given."""
        if self.strides or not self.shape:
            return self.strides
        found = [prim.const(1, self.shape[-1].dtype)]
        for size in reversed(self.shape[1:]):
            found.append(found[-1] * size)
        return tuple(reversed(found))

    def __getitem__(self, indices: Any) -> Any:  # Any: BufferLoad or BufferRegion
        listed = _indices(indices)
        if any(isinstance(i, slice) for i in listed):
            return BufferRegion(self, [_range(i, s) for i, s in self._paired(listed)])
        return BufferLoad(self, listed)

    def _paired(self, indices: Sequence[Any]) -> list[tuple[Any, PrimExpr]]:
        if len(indices) != self.ndim:
            raise ValueError(_count_message(self, indices))
        return list(zip(indices, self.shape, strict=True))

    def __iter__(self) -> Any:
        raise TypeError(f"buffer `{self.name}` is no sequence: index it with [...]")

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f'{self.name}: T.Buffer(({sizes}), "{self.dtype}")'


class BufferLoad(PrimExpr):
    """One element of a buffer."""

    __slots__ = ("buffer", "indices")
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[Any],
        predicate: object = None,
        span: object = None,
    ) -> None:
        if len(indices) != buffer.ndim:
            raise ValueError(_count_message(buffer, indices))
        self.buffer = buffer
        self.indices = tuple(map(_index, indices))
        self.dtype = buffer.dtype

    def children(self) -> tuple[PrimExpr, ...]:
        return self.indices

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        return BufferLoad(self.buffer, children)

    def key(self) -> tuple[object, ...]:
        return (id(self.buffer),)

    def script_text(self) -> str:
        """How a script spells it."""
        inner = ", ".join(map(text_of, self.indices))
        return f"{self.buffer.name}[{inner or '()'}]"


class BufferRegion:
    """A box of a buffer.

    Attributes:
        region: a run per dimension.
    """

    def __init__(self, buffer: Buffer, region: Sequence[Any]) -> None:
        self.buffer = buffer
        self.region = tuple(r if isinstance(r, Range) else Range(*r) for r in region)

    @property
    def dtype(self) -> str:
        """Element type of the buffer."""
        return self.buffer.dtype

    def as_load(self) -> BufferLoad | None:
        """The element that it is, if it is one."""
        if all(_is_one(r.extent) for r in self.region):
            return BufferLoad(self.buffer, [r.min for r in self.region])
        return None

    def as_prim_expr(self) -> PrimExpr:
        """The element that it is.

        Raises:
            TypeError: it may hold more than one.
        """
        load = self.as_load()
        if load is None:
            raise TypeError(
                f"`{self}`: expected one element, got a region. Only `T.reads`, `T.writes` "
                "and `T.match_buffer` take regions"
            )
        return load

    def __repr__(self) -> str:
        inner = ", ".join(
            str(r.min) if _is_one(r.extent) else f"{r.min}:{r.min + r.extent}"
            for r in self.region
        )
        return f"{self.buffer.name}[{inner or '()'}]"


def decl_buffer(
    shape: Any,
    dtype: Any = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    span: object = None,
) -> Buffer:
    """A new buffer; see :class:`Buffer` for what the arguments mean."""
    return Buffer(
        shape,
        dtype or "float32",
        name,
        data,
        strides,
        elem_offset,
        scope or "global",
        data_alignment,
        offset_factor,
        buffer_type,
        axis_separators,
    )


def _sizes(shape: Any) -> tuple[PrimExpr, ...]:
    listed = (
        shape if isinstance(shape, Sequence) and not isinstance(shape, str) else None
    )
    if listed is None:
        listed = list(shape) if hasattr(shape, "__iter__") else [shape]
    return tuple(map(_size, listed))


def _size(value: Any) -> PrimExpr:
    if isinstance(value, str):
        raise TypeError(f"expected a size, got the string `{value}`")
    term = prim.convert(value)
    if not term.is_integer:
        raise TypeError(f"expected an integer as a size, got {term.dtype} `{term}`")
    return term


def _offset(offset: Any, factor: int, name: str, shape: Sequence[PrimExpr]) -> PrimExpr:
    if offset is not None:
        return prim.convert(offset)
    dtype = shape[0].dtype if shape else "int32"
    if factor:
        return Var(f"{name}_elem_offset", dtype)
    return prim.const(0, dtype)


def _indices(indices: Any) -> list[Any]:
    if isinstance(indices, (tuple, list)):
        return list(indices)
    return [indices]


def _index(value: Any) -> PrimExpr:
    if isinstance(value, (Buffer, str)):
        raise TypeError(f"expected an index, got {value!r}")
    return prim.convert(value)


def _range(index: Any, size: PrimExpr) -> Range:
    if not isinstance(index, slice):
        return Range.from_min_extent(_index(index), 1)
    if index.step is not None and index.step != 1:
        raise ValueError(f"slice with step {index.step}: expected steps of 1")
    start = 0 if index.start is None else index.start
    stop = size if index.stop is None else index.stop
    extent = prim.convert(stop) - start
    return Range.from_min_extent(start, simplify(extent))


def _is_one(size: PrimExpr) -> bool:
    return isinstance(size, prim.IntImm) and size.value == 1


def _count_message(buffer: Buffer, indices: Sequence[Any]) -> str:
    return f"buffer `{buffer.name}`: expected {buffer.ndim} indices, got {len(indices)}"


def _access_mask(mask: int | str) -> int:
    if isinstance(mask, int):
        return mask
    bits = {"r": 1, "w": 2}
    unknown = set(mask) - set(bits)
    if unknown:
        raise ValueError(f"access mask `{mask}`: expected letters r and w")
    return sum(bits[letter] for letter in set(mask))
