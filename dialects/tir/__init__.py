"""The tir dialect and the builder of tensor programs."""

from relax_mlir.dialects.tir.build import Buffer, Builder, buffer_type
from relax_mlir.dialects.tir.ops import (
    AddressOp,
    AllocBufferOp,
    AssertOp,
    BlockOp,
    CallOp,
    CallPackedOp,
    EvaluateOp,
    LetOp,
    Tir,
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
    "BlockOp",
    "Buffer",
    "Builder",
    "CallOp",
    "CallPackedOp",
    "EvaluateOp",
    "Index",
    "LetOp",
    "Scalar",
    "Tir",
    "buffer_type",
    "cast",
    "constant",
    "emit_dim",
    "select",
]
