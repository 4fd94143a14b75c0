"""Buffers of tensor programs, buffer loads and buffer regions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import (
    dtype_of,
    dtype_text,
    instance_of,
    integer_of,
    sequence_of,
)
from relax_mlir.objects.prim import PrimExpr, Range, Var
from relax_mlir.objects.prim.lanes import element_type, is_lane_count
from relax_mlir.objects.prim.pointers import Pointer, PointerType
from relax_mlir.objects.prim.script_text import prim_expr_script
from relax_mlir.objects.prim.scripted import Scripted
from relax_mlir.objects.prim.simplify import simplify

__all__ = [
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "accessed_type",
    "check_lanes",
    "decl_buffer",
]


class Buffer(Scripted):
    """A buffer: a view of memory with a shape and an element type.

    Buffers compare by identity.

    Attributes:
        name: its name in scripts.
        shape: a scalar expression per dimension.
        dtype: element type.
        data: the pointer variable of its memory.
        strides: in elements, a scalar expression per dimension; empty if compact (row-major).
        elem_offset: offset of the first element, in elements.
        data_alignment: alignment of the memory, in bytes.
        offset_factor: a known divisor of ``elem_offset``.
        buffer_type: 1 by default, 2 if dimensions of size 1 broadcast.
        axis_separators: positions between the groups of axes that flatten into one each.
    """

    READ, WRITE = 1, 2  # bits of the mask of ``access_ptr``
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
        is_default = dtype is None or (isinstance(dtype, str) and not dtype)
        self.dtype = "float32" if is_default else dtype_text(dtype, "Buffer: `dtype`")
        self._scope = instance_of(scope, str, "Buffer: `scope`", "a string") or "global"
        pointee = PointerType(self.dtype, self._scope)
        self.data = Pointer(name, pointee, self) if data is None else data
        self.strides = () if strides is None else _sizes(strides)
        data_alignment = integer_of(data_alignment, "Buffer: `data_alignment`")
        self.data_alignment = 64 if data_alignment <= 0 else data_alignment
        self.elem_offset = _offset(elem_offset, offset_factor, name, self.shape)
        self.offset_factor = offset_factor or 1
        self.buffer_type = 2 if buffer_type in ("auto_broadcast", 2) else 1
        where = "Buffer: `axis_separators`"
        separators = () if axis_separators is None else axis_separators
        self.axis_separators = sequence_of(separators, where, "integers")

    def encode_structure(self, encoder: Any) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.token_stream`."""
        from relax_mlir.objects.compare.token_stream import encode_buffer_definition

        encode_buffer_definition(encoder, self)

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other

    def scope(self) -> str:
        """The memory scope: ``global``, ``shared``, ``local``, ..."""
        return self._scope

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def owns_data(self) -> bool:
        """Whether its data pointer is its own rather than another buffer's."""
        return isinstance(self.data, Pointer) and self.data.buffer is self

    @property
    def has_own_offset(self) -> bool:
        """Whether its offset is the variable created with the buffer."""
        offset = self.elem_offset
        return isinstance(offset, Var) and offset.name == _offset_name(self.name)

    def vload(
        self, begin: Any, dtype: str | None = None, predicate: Any = None
    ) -> BufferLoad:
        """Loads one element or a vector of elements.

        Args:
            begin: the indices; the last may be a vector, or with a vector ``dtype`` the
                start of one.
            dtype: the type of the result; by default given by ``begin``.
            predicate: mask of the lanes to load; all by default.
        """
        if dtype is not None:
            dtype = dtype_of(dtype, "Buffer.vload: `dtype`")
        return BufferLoad(self, _widened(_indices(begin), dtype), predicate)

    def vstore(self, begin: Any, value: Any, predicate: Any = None) -> Any:
        """The store statement of one element or a vector; see :meth:`vload`."""
        from relax_mlir.objects.stmt.statements import BufferStore

        stored = prim.convert(value)
        indices = _widened(_indices(begin), stored.dtype)
        return BufferStore(self, stored, indices, predicate)

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> prim.Call:
        """A pointer into the buffer for an external function.

        Args:
            access_mask: ``r``, ``w`` or both, or the sum of the bits 1 and 2.
            ptr_type: type of the pointer.
            content_lanes: vector length of an element; only 1 is supported.
            offset: offset of the accessed elements.
            extent: number of accessed elements; by default all that follow.

        Raises:
            ValueError: the mask has a letter other than ``r`` and ``w``.
        """
        mask = _access_mask(access_mask)
        offset = prim.convert(offset)
        count = prim.convert(1)
        for size in self.shape:
            count = count * size
        if self.strides:
            count = self.strides[0] * self.shape[0]
        rest = count - offset if extent is None else prim.convert(extent)
        kind = prim.Call(self.dtype, "type_annotation", [])
        start = self.elem_offset + offset
        return prim.Call(
            ptr_type, "tvm_access_ptr", [kind, self.data, start, rest, mask]
        )

    def offset_of(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """The linear offset of an element in the flat buffer.

        Raises:
            TypeError: the indices are no sequence.
            ValueError: the number of indices is not the rank.
        """
        listed = sequence_of(indices, "Buffer.offset_of: `indices`", "indices")
        if len(listed) != self.ndim:
            raise ValueError(_count_message(self, listed))
        total: Any = self.elem_offset
        for index, stride in zip(
            map(_index, listed), self.dense_strides(), strict=True
        ):
            total = total + index * stride
        return [prim.convert(total)]

    def get_flattened_buffer(self) -> Buffer:
        """A view of the same memory with one dimension per group of axes."""
        where = "Buffer.get_flattened_buffer: `axis_separators`"
        separators = [integer_of(a, where) for a in self.axis_separators]
        ends = [*separators, self.ndim]
        starts = [0, *ends[:-1]]
        groups = [self._elements(*p) for p in zip(starts, ends, strict=True)]
        return Buffer(
            groups,
            self.dtype,
            self.name,
            self.data,
            elem_offset=self.elem_offset,
            scope=self.scope(),
            data_alignment=self.data_alignment,
            offset_factor=self.offset_factor,
            axis_separators=range(1, len(groups)),
        )

    def _elements(self, start: int, end: int) -> PrimExpr:
        """The number of elements that the dimensions of a group span."""
        if self.strides and start < end:
            return self.strides[start] * self.shape[start]
        total = prim.convert(1)
        for size in self.shape[start:end]:
            total = size * total
        return total

    def dense_strides(self) -> tuple[PrimExpr, ...]:
        """Its strides; row-major ones if none are given."""
        if self.strides or not self.shape:
            return self.strides
        strides = [prim.const(1, self.shape[-1].dtype)]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    def __getitem__(self, indices: Any) -> Any:  # Any: BufferLoad or BufferRegion
        listed = _indices(indices)
        slices = [i for i in listed if isinstance(i, slice)]
        if any(i.step is not None for i in slices):
            return BufferLoad(
                self, [_strided_index(i, s) for i, s in self._paired(listed)]
            )
        if slices:
            return BufferRegion(self, [_range(i, s) for i, s in self._paired(listed)])
        return BufferLoad(self, listed)

    def _paired(self, indices: Sequence[Any]) -> list[tuple[Any, PrimExpr]]:
        if len(indices) != self.ndim:
            raise ValueError(_count_message(self, indices))
        return list(zip(indices, self.shape, strict=True))

    def __iter__(self) -> Any:
        raise TypeError(f"buffer `{self.name}` is not a sequence: index it with [...]")

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f'{self.name}: T.Buffer(({sizes}), "{self.dtype}")'


class BufferLoad(PrimExpr):
    """A load of one element, or of a vector with a vector index.

    Attributes:
        predicate: mask of the lanes to load, or None for all.
    """

    __slots__ = ("buffer", "indices", "predicate")
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[Any],
        predicate: Any = None,
        span: object = None,
    ) -> None:
        instance_of(buffer, Buffer, "BufferLoad: `buffer`", "a buffer")
        indices = sequence_of(indices, "BufferLoad: `indices`", "indices")
        if len(indices) != buffer.ndim:
            raise ValueError(_count_message(buffer, indices))
        self.buffer = buffer
        self.indices = tuple(map(_index, indices))
        self.predicate = None if predicate is None else prim.convert(predicate)
        self.dtype = accessed_type(buffer, self.indices)
        if self.predicate is not None:
            check_lanes(self.predicate, self.dtype, "load indices", "load a vector")

    def children(self) -> tuple[PrimExpr, ...]:
        lanes = () if self.predicate is None else (self.predicate,)
        return (*self.indices, *lanes)

    def with_children(self, children: Sequence[PrimExpr]) -> PrimExpr:
        count = len(self.indices)
        return BufferLoad(self.buffer, children[:count], *children[count:])

    def key(self) -> tuple[object, ...]:
        return (id(self.buffer),)

    def script_text(self) -> str:
        """Its TVMScript."""
        inner = ", ".join(map(prim_expr_script, self.indices))
        return f"{self.buffer.name}[{inner or '()'}]"


class BufferRegion(Scripted):
    """A rectangular region of a buffer.

    Attributes:
        region: a range per dimension.
    """

    def __init__(self, buffer: Buffer, region: Sequence[Any]) -> None:
        self.buffer = instance_of(buffer, Buffer, "BufferRegion: `buffer`", "a buffer")
        ranges = sequence_of(region, "BufferRegion: `region`", "ranges")
        self.region = tuple(map(Range.of, ranges))

    @property
    def dtype(self) -> str:
        """Element type of the buffer."""
        return self.buffer.dtype

    def as_load(self) -> BufferLoad | None:
        """The region as a load: one element, or a vector in the last dimension."""
        *outer, last = [r.extent for r in self.region] or [prim.convert(1)]
        if not all(map(_is_one, outer)) or not is_lane_count(last):
            return None
        indices = [r.min for r in self.region]
        if not _is_one(last):
            indices[-1] = prim.Ramp(indices[-1], 1, last)
        return BufferLoad(self.buffer, indices)

    def as_prim_expr(self) -> PrimExpr:
        """The load of the region's element or vector.

        Raises:
            TypeError: it is neither.
        """
        load = self.as_load()
        if load is None:
            raise TypeError(
                f"`{self}`: expected an element or a vector of known length, got a region. "
                "Only `T.reads`, `T.writes` and `T.match_buffer` take regions"
            )
        return load

    def __repr__(self) -> str:
        inner = ", ".join(
            str(r.min) if _is_one(r.extent) else f"{r.min}:{r.min + r.extent}"
            for r in self.region
        )
        return f"{self.buffer.name}[{inner or '()'}]"


def _forward_to_load(name: str) -> Callable[..., Any]:
    def method(self: BufferRegion, *args: Any) -> Any:
        operands = [
            a.as_prim_expr() if isinstance(a, BufferRegion) else a for a in args
        ]
        return getattr(self.as_prim_expr(), name)(*operands)

    method.__name__ = name
    return method


# An operator on a region applies to the loaded vector.
for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"),
    *("__floordiv__", "__rfloordiv__", "__truediv__", "__rtruediv__", "__mod__"),
    *("__rmod__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"),
    *("__neg__", "__invert__", "__and__", "__rand__", "__or__", "__ror__", "__xor__"),
    *("__rxor__", "__lshift__", "__rlshift__", "__rshift__", "__rrshift__"),
    "astype",
):
    setattr(BufferRegion, _name, _forward_to_load(_name))


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
    """Declares a buffer; see :class:`Buffer` for the arguments."""
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
    is_one = isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable)
    listed = [shape] if is_one else sequence_of(shape, "sizes of a buffer", "sizes")
    return tuple(map(_size, listed))


def _size(value: Any) -> PrimExpr:
    if isinstance(value, str):
        raise TypeError(f"expected a size, got the string `{value}`")
    expr = prim.convert(value)
    if not expr.is_integer:
        raise TypeError(f"expected an integer as a size, got {expr.dtype} `{expr}`")
    return expr


def _offset(offset: Any, factor: int, name: str, shape: Sequence[PrimExpr]) -> PrimExpr:
    if offset is not None:
        return prim.convert(offset)
    dtype = shape[0].dtype if shape else "int32"
    if factor:
        return Var(_offset_name(name), dtype)
    return prim.const(0, dtype)


def _offset_name(name: str) -> str:
    return f"{name}_elem_offset"


def _indices(indices: Any) -> list[Any]:
    if isinstance(indices, (tuple, list)):
        return list(indices)
    return [indices]


def _index(value: Any) -> PrimExpr:
    if isinstance(value, (Buffer, str)):
        raise TypeError(f"expected an index, got {short_repr(value)}")
    return prim.convert(value)


def accessed_type(buffer: Buffer, indices: Sequence[PrimExpr]) -> str:
    """The type of an access at some indices.

    Raises:
        ValueError: an index before the last is a vector.
    """
    *outer, last = [i.dtype for i in indices] or ["int32"]
    if any(element_type(t) != t for t in outer):
        raise ValueError(
            f"buffer `{buffer.name}`: expected a vector as the last index only"
        )
    if element_type(last) == last:
        return buffer.dtype
    element = element_type(buffer.dtype)
    return prim.with_lanes(element, last)


def check_lanes(mask: PrimExpr, dtype: str, what: str, action: str) -> None:
    """Checks that a predicate is a boolean mask with the lanes of a vector.

    Args:
        mask: the predicate.
        dtype: the vector type.
        what: description of the indices, for the error message.
        action: description of the access, for the error message.

    Raises:
        OperatorError: it has another length or element type.
    """
    element = element_type(mask.dtype)
    scales = ["vscale" in t for t in (mask.dtype, dtype)]
    if scales[0] != scales[1]:
        raise OperatorError(f"Predicate mask dtype and {what} must both be scalable.")
    counts = [t.rsplit("x", 1)[-1] for t in (mask.dtype, dtype)]
    if counts[0] != counts[1]:
        raise OperatorError(
            f"Got a predicate mask with {counts[0]} lanes, but trying to {action} with "
            f"{counts[1]} lanes. The number of lanes must match."
        )
    if element not in ("bool", "int1", "uint1"):
        raise OperatorError(
            f"Predicate mask elements must be boolean values, but got {element}."
        )


def _widened(indices: list[Any], dtype: str | None) -> list[Any]:
    """Indices of as many elements as a vector type has lanes."""
    lanes = prim.lanes_of(dtype or "")
    last = _index(indices[-1]) if indices else prim.convert(0)
    is_vector = element_type(last.dtype) != last.dtype
    if _is_one(lanes) or is_vector:
        return indices
    return [*indices[:-1], prim.Ramp(last, prim.const(1, last.dtype), lanes)]


def _strided_index(index: Any, size: PrimExpr) -> Any:
    """The vector index of a slice with a step."""
    if not isinstance(index, slice):
        return index
    start = prim.convert(0 if index.start is None else index.start)
    stop = prim.convert(size if index.stop is None else index.stop)
    step = 1 if index.step is None else index.step
    lanes = simplify((simplify(stop - start) + (step - 1)) // step)
    return start if _is_one(lanes) else prim.Ramp(start, step, lanes)


def _range(index: Any, size: PrimExpr) -> Range:
    if not isinstance(index, slice):
        return Range.from_min_extent(_index(index), 1)
    start = 0 if index.start is None else index.start
    stop = size if index.stop is None else index.stop
    extent = prim.convert(stop) - start
    return Range.from_min_extent(start, simplify(extent))


def _is_one(size: PrimExpr) -> bool:
    return isinstance(size, prim.IntImm) and size.value == 1


def _count_message(buffer: Buffer, indices: Sequence[Any]) -> str:
    return f"buffer `{buffer.name}`: expected {buffer.ndim} indices, got {len(indices)}"


def _access_mask(mask: int | str) -> int:
    if not isinstance(mask, str):
        return integer_of(mask, "Buffer.access_ptr: `access_mask`")
    bits = {"r": 1, "w": 2}
    unknown = set(mask) - set(bits)
    if unknown:
        raise ValueError(f"access mask `{mask}`: expected letters r and w")
    return sum(bits[letter] for letter in set(mask))
