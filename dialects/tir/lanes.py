"""Runs of neighbouring elements as vectors, for programs that are written with them."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.tir.build import Buffer
from relax_mlir.dialects.tir.scalars import Index, Scalar, constant, emit

__all__ = ["fma", "lanes_for", "load_lanes", "splat", "store_lanes"]

_BITS = 512  # of the widest vectors; machines with narrower ones take several


def lanes_for(type_: DType) -> int:
    """How many elements of a type a vector has."""
    return _BITS // type_.bits


def load_lanes(
    buffer: Buffer, where: Sequence[Index | int], count: int | None = None
) -> Scalar:
    """The elements from a place on, along the last dimension.

    Args:
        buffer: what is read.
        where: the first of them.
        count: how many are read; those behind are 0. None for a whole vector.
    """
    type_ = _vector(buffer.dtype)
    indices = [Index.value_of(i) for i in where]
    if count is None or count == type_.lanes:
        loaded = emit("vector.load", type_.scalar_type, buffer.value, *indices)
        return Scalar(loaded, type_)
    operands = [buffer.value, *indices, _mask(type_, count), constant(0, type_).value]
    return Scalar(emit("vector.maskedload", type_.scalar_type, *operands), type_)


def store_lanes(
    buffer: Buffer,
    value: Scalar,
    where: Sequence[Index | int],
    count: int | None = None,
) -> None:
    """Write the first ``count`` elements of a vector; see :func:`load_lanes`."""
    indices = [Index.value_of(i) for i in where]
    if count is None or count == value.dtype.lanes:
        operands = [value.value, buffer.value, *indices]
        ir.Operation.create("vector.store", operands=operands)
        return
    operands = [buffer.value, *indices, _mask(value.dtype, count), value.value]
    ir.Operation.create("vector.maskedstore", operands=operands)


def splat(value: Scalar) -> Scalar:
    """The same number in all lanes."""
    type_ = _vector(value.dtype)
    return Scalar(emit("vector.broadcast", type_.scalar_type, value.value), type_)


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """a * b + c, of vectors of floats, rounded once where the machine can."""
    return Scalar(emit("vector.fma", c.value.type, a.value, b.value, c.value), c.dtype)


def _vector(type_: DType) -> DType:
    return dtype(f"{type_.name}x{lanes_for(type_)}")


def _mask(type_: DType, count: int) -> ir.Value:
    """Which lanes there are: the first ``count``."""
    lanes = dtype("bool").with_lanes_of(type_).scalar_type
    sizes = ir.DenseI64ArrayAttr.get([count])
    return emit("vector.constant_mask", lanes, mask_dim_sizes=sizes)
