"""Vector helpers for tensor programs that are written with explicit vectors."""

from collections.abc import Sequence

from mlir import ir

from relax_mlir.dialects.dtypes import DType, dtype
from relax_mlir.dialects.tir.builder import Buffer
from relax_mlir.dialects.tir.scalars import Index, Scalar, constant, emit

__all__ = ["fma", "load_lanes", "splat", "store_lanes", "vector_lanes"]

_BITS = 512  # widest vector register; wider than the machine's, vectors are split


def vector_lanes(type_: DType) -> int:
    """Number of lanes of a vector of this element type."""
    return _BITS // type_.bits


def load_lanes(
    buffer: Buffer, where: Sequence[Index | int], count: int | None = None
) -> Scalar:
    """Loads a vector of consecutive elements of the last dimension.

    Args:
        buffer: the source.
        where: indices of the first element.
        count: number of lanes that are read, the others being 0; None for all lanes.
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
    """Stores the first ``count`` lanes of a vector; see :func:`load_lanes`."""
    indices = [Index.value_of(i) for i in where]
    if count is None or count == value.dtype.lanes:
        operands = [value.value, buffer.value, *indices]
        ir.Operation.create("vector.store", operands=operands)
        return
    operands = [buffer.value, *indices, _mask(value.dtype, count), value.value]
    ir.Operation.create("vector.maskedstore", operands=operands)


def splat(value: Scalar) -> Scalar:
    """Broadcasts a scalar to all lanes of a vector."""
    type_ = _vector(value.dtype)
    return Scalar(emit("vector.broadcast", type_.scalar_type, value.value), type_)


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """a * b + c on float vectors, fused (rounded once) where the machine supports it."""
    return Scalar(emit("vector.fma", c.value.type, a.value, b.value, c.value), c.dtype)


def _vector(type_: DType) -> DType:
    return dtype(f"{type_.name}x{vector_lanes(type_)}")


def _mask(type_: DType, count: int) -> ir.Value:
    """A mask of the first ``count`` lanes."""
    lanes = dtype("bool").with_lanes_of(type_).scalar_type
    sizes = ir.DenseI64ArrayAttr.get([count])
    return emit("vector.constant_mask", lanes, mask_dim_sizes=sizes)
