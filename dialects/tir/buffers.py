"""Buffers of tensor programs with symbolic shapes, loads and stores."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.dialects.tir.scalars import (
    Index,
    Scalar,
    constant,
    emit,
    from_memory,
    to_memory,
)

__all__ = [
    "Buffer",
    "ConstantScalarBuffer",
    "broadcast_axes",
    "buffer_type",
    "dtype_attributes",
]


def buffer_type(
    shape: Sequence[Dim], dtype: DType, memory: str | None = None
) -> ir.MemRefType:
    """The row-major memref type of a tensor.

    Args:
        shape: the dimensions.
        dtype: the element type.
        memory: the memory space on a GPU, such as ``shared``; None for the default.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [dim if isinstance(dim, int) else dynamic for dim in shape]
    space = None if memory is None else ir.StringAttr.get(memory)
    return ir.MemRefType.get(sizes, dtype.buffer_type, memory_space=space)


def dtype_attributes(dtype: DType) -> dict[str, ir.Attribute]:
    """The ``tir.dtype`` attribute of a buffer, if its memref does not imply the type."""
    if dtype.is_implied_by_memref:
        return {}
    return {attribute_names.DTYPE: ir.StringAttr.get(dtype.name)}


class Buffer:
    """A buffer and its symbolic shape; ``buffer[i, j]`` reads one element."""

    def __init__(self, value: ir.Value, shape: Sequence[Dim], dtype: DType) -> None:
        self.value = value
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __getitem__(self, indices: "Index | int | tuple[Index | int, ...]") -> Scalar:
        indices = indices if isinstance(indices, tuple) else (indices,)
        values = [Index.value_of(i) for i in indices]
        loaded = emit("memref.load", self.dtype.buffer_type, self.value, *values)
        return from_memory(loaded, self.dtype)

    def store(self, value: Scalar, indices: "Sequence[Index | int]") -> None:
        """Stores one element."""
        stored = to_memory(value.value, self.dtype)
        ir.Operation.create(
            "memref.store", operands=[stored, self.value, *map(Index.value_of, indices)]
        )


class ConstantScalarBuffer(Buffer):
    """A rank-0 operand with a compile-time value; reading it emits a constant."""

    def __init__(self, number: float, dtype: DType) -> None:
        self.number = number
        self.shape = ()
        self.dtype = dtype

    def __getitem__(self, indices: "Index | int | tuple[Index | int, ...]") -> Scalar:
        return constant(self.number, self.dtype)


def broadcast_axes(
    shape: Sequence[Dim], to: Sequence[Dim], axes: Sequence[Index]
) -> "tuple[Index | int, ...]":
    """The indices of an operand of ``shape`` for the point ``axes`` of shape ``to``.

    Broadcast axes are read at index 0.
    """
    tail = axes[len(axes) - len(shape) :]
    wide = to[len(to) - len(shape) :]
    return tuple(
        0 if dim != other and shapes.is_known_le(dim, 1) else axis
        for dim, other, axis in zip(shape, wide, tail, strict=True)
    )
