"""What NVIDIA's libraries take for what kernels of a model do: products, and convolutions.

They compute the sums alone, of random numbers, without what a kernel does around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.dialects.convolution_shapes import ConvolutionShape
from relax_mlir.errors import DeviceError, without_hint
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.convolutions import Convolution
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.libraries import Libraries, PreparedCall
from relax_mlir.runtime.cuda.plan import LibraryCall
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.products import ITEM_BYTES, Matrix, Product
from relax_mlir.runtime.elements import random_elements
from relax_mlir.runtime.profile import KernelCall

__all__ = ["Rival", "Rivals"]

# Rules whose kernels multiply on tensor cores: numbers in f32 as TF32.
_TENSOR_CORES = ("GemmWgmma", "GemmMmaSync")
_LIBRARIES = ("Library", "LibraryConvolution")
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class Rival:
    """A library that does what a kernel does.

    Attributes:
        name: of the library; start: puts the work on the device's first stream.
        operands: what it computes with, which lives as long as this.
    """

    name: str
    start: Callable[[], None]
    operands: Sequence[DeviceArray]


class Rivals:
    """The libraries on a device, as far as they are there.

    Attributes:
        missing: what is wrong with those that are not, in the order they were looked for.
    """

    def __init__(self, gpu: Device) -> None:
        self._gpu, self._libraries = gpu, Libraries(gpu)
        self._rng = np.random.default_rng(0)
        self._taken: list[PreparedCall] = []
        self.missing: list[str] = []

    def of(self, kernel: KernelCall) -> Rival | None:
        """That of a kernel; None if there is none, or the kernel is one of theirs.

        Raises:
            OutOfMemoryError: its operands need more memory than there is.
            ValueError: the kernel is described wrongly.
        """
        is_theirs = kernel.rule in _LIBRARIES
        tf32 = kernel.rule in _TENSOR_CORES
        if kernel.convolution is not None and not is_theirs:
            made = _convolution(*kernel.convolution, tf32)
            return self._rival("cuDNN", made, kernel.name)
        if kernel.product is not None and not is_theirs:
            made = _product(*kernel.product, tf32)
            return self._rival("cuBLASLt", made, kernel.name)
        return None

    def _rival(self, name: str, made: LibraryCall | None, kernel: str) -> Rival | None:
        if made is None or made.is_empty:
            return None
        with self._gpu.current():
            try:
                prepared = self._libraries.prepared(made, kernel, 0)
            except DeviceError as error:
                problem = without_hint(error)
                self.missing += [] if problem in self.missing else [problem]
                return None
            self._taken.append(prepared)
            element = _NAMES[_element(made)]
            arrays = [
                DeviceArray.of(random_elements(self._rng, (count,), element), self._gpu)
                for count in _counts(made)
            ]
            prepared.point(lambda pointer: arrays[pointer.number].address)

        def start() -> None:
            with self._gpu.current():
                prepared.start(0)

        return Rival(name, start, arrays)

    def close(self) -> None:
        """Give everything back, when the device is done with it."""
        with self._gpu.current():
            while self._taken:
                self._taken.pop().close()
            self._libraries.close()


def _element(made: LibraryCall) -> str:
    return made.lhs.element if isinstance(made, Product) else made.element


def _counts(made: LibraryCall) -> Sequence[int]:
    """How many elements operands and the result have."""
    size_bytes = ITEM_BYTES[_element(made)]
    return [count // size_bytes for _, count in made.spans()]


def _product(
    outer: int, rows: int, columns: int, terms: int, element: str, tf32: bool
) -> Product | None:
    if element not in ITEM_BYTES:
        return None
    lhs, rhs, result = (
        Matrix(Pointer("argument", number), element, width, height * width)
        for number, (height, width) in enumerate(
            ((rows, terms), (terms, columns), (rows, columns))
        )
    )
    sizes = outer, rows, columns, terms
    return Product(sizes, lhs, rhs, result, tf32=tf32 and element == "f32")


def _convolution(
    pictures: int, shape: ConvolutionShape, element: str, tf32: bool
) -> Convolution | None:
    shape.check()
    if element not in ITEM_BYTES:
        return None
    operands = (Pointer("argument", number) for number in range(3))
    is_rounded = tf32 and element == "f32"
    return Convolution(shape, pictures, element, *operands, tf32=is_rounded)
