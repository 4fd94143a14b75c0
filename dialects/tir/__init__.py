"""The tir dialect and the builder of tensor programs."""

from relax_mlir.dialects.tir.buffers import Buffer, buffer_type
from relax_mlir.dialects.tir.build import Builder
from relax_mlir.dialects.tir.ops import (
    AddressOp,
    AllocBufferOp,
    AssertOp,
    AttrOp,
    BlockOp,
    CallOp,
    CallPackedOp,
    DeclBufferOp,
    EvaluateOp,
    LetOp,
    LibraryProductOp,
    RampOp,
    Tir,
    UndefinedOp,
    VectorLoadOp,
    VectorStoreOp,
)
from relax_mlir.dialects.tir.scalars import (
    Index,
    Scalar,
    cast,
    constant,
    emit_dim,
    select,
)

__all__ = [
    "AddressOp",
    "AllocBufferOp",
    "AssertOp",
    "AttrOp",
    "BlockOp",
    "Buffer",
    "Builder",
    "CallOp",
    "CallPackedOp",
    "DeclBufferOp",
    "EvaluateOp",
    "Index",
    "LetOp",
    "LibraryProductOp",
    "RampOp",
    "Scalar",
    "Tir",
    "UndefinedOp",
    "VectorLoadOp",
    "VectorStoreOp",
    "buffer_type",
    "cast",
    "constant",
    "emit_dim",
    "select",
]
