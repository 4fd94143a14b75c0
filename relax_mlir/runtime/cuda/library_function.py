"""Library functions of models: matmuls by cuBLASLt, and convolutions by cuDNN, by name."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.errors import DeviceError
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["LibraryConvolutionFunction", "LibraryMatmulFunction"]


@dataclass(frozen=True)
class LibraryMatmulFunction:
    """A matmul by cuBLASLt, for models on a GPU.

    It becomes part of the launch plan, and is never called itself.

    Attributes:
        name: of the function.
        lhs, rhs: indices of the operands; all leading dimensions of ``lhs`` are M.
        is_transposed: whether ``rhs`` is transposed, [N, K].
        bias: index of the bias; None if there is none.
        activation: ``none`` or ``relu``.
    """

    name: str
    lhs: int
    rhs: int
    is_transposed: bool = False
    bias: int | None = None
    activation: str = "none"

    def __call__(self, *arrays: object) -> None:
        """Reject calls outside of a launch plan.

        Raises:
            DeviceError: always.
        """
        raise _not_on_gpu(self.name, "a matmul by cuBLAS")


@dataclass(frozen=True)
class LibraryConvolutionFunction:
    """A convolution by cuDNN, for models on a GPU; see :class:`LibraryMatmulFunction`.

    Attributes:
        name: of the function.
        image, weights: indices of the image and weight operands, which are contiguous.
        shape: of the convolution of one image.
        bias: index of the bias, [filters]; None if there is none.
        activation: ``none`` or ``relu``.
    """

    name: str
    image: int
    weights: int
    shape: ConvolutionShape
    bias: int | None = None
    activation: str = "none"

    def __call__(self, *arrays: object) -> None:
        """Reject calls outside of a launch plan.

        Raises:
            DeviceError: always.
        """
        raise _not_on_gpu(self.name, "a convolution by cuDNN")


def _not_on_gpu(name: str, what: str) -> DeviceError:
    return DeviceError(
        f"`{name}`: {what}: expected a model that is compiled for a GPU. Hint: "
        '`target="cuda"`, or omit its patterns'
    )
