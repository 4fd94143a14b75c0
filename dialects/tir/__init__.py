"""The tir dialect and the builder of tensor programs."""

from relax_mlir.dialects.tir.build import Buffer, Builder, buffer_type
from relax_mlir.dialects.tir.ops import AllocBufferOp, BlockOp, CallPackedOp, Tir
from relax_mlir.dialects.tir.scalars import (
    Index,
    Scalar,
    cast,
    constant,
    emit_dim,
    select,
)

__all__ = [
    "AllocBufferOp",
    "BlockOp",
    "Buffer",
    "Builder",
    "CallPackedOp",
    "Index",
    "Scalar",
    "Tir",
    "buffer_type",
    "cast",
    "constant",
    "emit_dim",
    "select",
]
