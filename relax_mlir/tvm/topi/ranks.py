"""Annotated parameter types: tensors of a given rank, integers of a given range."""

from typing import Annotated

from relax_mlir.dialects.tensors import MAX_RANK
from relax_mlir.support.argument_types import at_least, of_rank
from relax_mlir.tvm.te import Tensor

__all__ = [
    "AtLeastMatrix",
    "AtLeastVector",
    "Matrix",
    "PositiveInt",
    "Tensor3D",
    "Tensor4D",
    "Vector",
]

Vector = Annotated[Tensor, of_rank(1)]
Matrix = Annotated[Tensor, of_rank(2)]
AtLeastMatrix = Annotated[Tensor, of_rank(2, MAX_RANK)]
Tensor3D = Annotated[Tensor, of_rank(3)]
Tensor4D = Annotated[Tensor, of_rank(4)]
AtLeastVector = Annotated[Tensor, of_rank(1, MAX_RANK)]
PositiveInt = Annotated[int, at_least(1)]
