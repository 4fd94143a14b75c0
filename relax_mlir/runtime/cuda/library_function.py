"""Products of matrices, and convolutions, that models call by name."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.errors import DeviceError

__all__ = ["LibraryConvolutionFunction", "LibraryFunction"]


@dataclass(frozen=True)
class LibraryFunction:
    """A product that cuBLASLt computes where the model that calls it runs on a GPU.

    There it is part of the launch plan, and nothing is called.

    Attributes:
        name: by which it is called.
        lhs, rhs: numbers of the arguments that are multiplied; rows of all leading
            dimensions of ``lhs`` by a matrix.
        is_turned: whether the columns of ``rhs`` are its first dimension.
        bias: the number of what is added to each row, if there is any.
        activation: ``none`` or ``relu``.
    """

    name: str
    lhs: int
    rhs: int
    is_turned: bool = False
    bias: int | None = None
    activation: str = "none"

    def __call__(self, *arrays: object) -> None:
        """Refuse: there is no GPU.

        Raises:
            DeviceError: always.
        """
        raise _elsewhere(self.name, "a product by cuBLAS")


@dataclass(frozen=True)
class LibraryConvolutionFunction:
    """A convolution that cuDNN computes, likewise.

    Attributes:
        name: by which it is called.
        picture, weights: numbers of the arguments that are convolved, without gaps.
        shape: what is computed of each picture.
        bias: the number of what is added to each filter's results, if there is any.
        activation: ``none`` or ``relu``.
    """

    name: str
    picture: int
    weights: int
    shape: ConvolutionShape
    bias: int | None = None
    activation: str = "none"

    def __call__(self, *arrays: object) -> None:
        """Refuse: there is no GPU.

        Raises:
            DeviceError: always.
        """
        raise _elsewhere(self.name, "a convolution by cuDNN")


def _elsewhere(name: str, what: str) -> DeviceError:
    return DeviceError(
        f"`{name}`: {what}: expected a model that is compiled for a GPU. Hint: "
        '`target="cuda"`, or leave its patterns out'
    )
