"""Types of parameters that say more than a class: tensors of some ranks, numbers of a range."""

from typing import Annotated

from relax_mlir.argument_types import at_least, of_rank
from relax_mlir.dialects.tensors import MAX_RANK
from relax_mlir.te import Tensor

__all__ = [
    "AtLeastMatrix",
    "Batch",
    "Matrix",
    "Picture",
    "Positive",
    "Vector",
    "Volume",
]

Vector = Annotated[Tensor, of_rank(1)]
Matrix = Annotated[Tensor, of_rank(2)]
AtLeastMatrix = Annotated[Tensor, of_rank(2, MAX_RANK)]
Volume = Annotated[Tensor, of_rank(3)]
Picture = Annotated[Tensor, of_rank(4)]
Batch = Annotated[Tensor, of_rank(1, MAX_RANK)]
Positive = Annotated[int, at_least(1)]
