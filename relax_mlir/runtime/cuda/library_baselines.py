"""Library baselines: cuBLASLt and cuDNN on the matmuls and convolutions of a model.

The libraries compute the contraction alone, of random numbers, without the kernel's fused
prologue and epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.errors import DeviceError, without_hint
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.libraries import Libraries, LibraryPlan
from relax_mlir.runtime.cuda.matmul_descriptors import ITEM_BYTES, BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.plan import LibraryCall
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.elements import random_elements
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape

__all__ = ["LibraryBaseline", "LibraryBaselines"]

# Rules whose kernels use tensor cores, with f32 rounded to TF32.
_TENSOR_CORES = ("GemmWgmma", "GemmMmaSync")
_LIBRARY_RULES = ("CublasLt", "Cudnn")
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class LibraryBaseline:
    """The library baseline of a kernel.

    Attributes:
        name: of the library; start: enqueues the work on the default stream.
        operands: kept alive with this object.
    """

    name: str
    start: Callable[[], None]
    operands: Sequence[DeviceArray]


class LibraryBaselines:
    """Library baselines on a device, for the libraries that can be loaded.

    Attributes:
        missing: problems with the other libraries.
    """

    def __init__(self, gpu: Device) -> None:
        self._gpu, self._libraries = gpu, Libraries(gpu)
        self._rng = np.random.default_rng(0)
        self._plans: list[LibraryPlan] = []
        self.missing: list[str] = []

    def of(self, kernel: KernelCall) -> LibraryBaseline | None:
        """The baseline of a kernel; None if there is none, or it is a library call.

        Raises:
            OutOfMemoryError: the operands cannot be allocated.
            ValueError: the kernel's description is invalid.
        """
        is_library = kernel.rule in _LIBRARY_RULES
        tf32 = kernel.rule in _TENSOR_CORES
        if kernel.convolution is not None and not is_library:
            call = _convolution(*kernel.convolution, tf32)
            return self._baseline("cuDNN", call, kernel.name)
        if kernel.product is not None and not is_library:
            call = _matmul(*kernel.product, tf32)
            return self._baseline("cuBLASLt", call, kernel.name)
        return None

    def _baseline(
        self, name: str, call: LibraryCall | None, kernel: str
    ) -> LibraryBaseline | None:
        if call is None or call.is_empty:
            return None
        with self._gpu.current():
            try:
                plan = self._libraries.prepared(call, kernel, 0)
            except DeviceError as error:
                problem = without_hint(error)
                self.missing += [] if problem in self.missing else [problem]
                return None
            self._plans.append(plan)
            element = _NAMES[_element(call)]
            arrays = [
                DeviceArray.of(random_elements(self._rng, (count,), element), self._gpu)
                for count in _counts(call)
            ]
            plan.point(lambda pointer: arrays[pointer.number].address)

        def start() -> None:
            with self._gpu.current():
                plan.start(0)

        return LibraryBaseline(name, start, arrays)

    def close(self) -> None:
        """Release everything; the work must be complete."""
        with self._gpu.current():
            while self._plans:
                self._plans.pop().close()
            self._libraries.close()


def _element(call: LibraryCall) -> str:
    return call.lhs.element if isinstance(call, Matmul) else call.element


def _counts(call: LibraryCall) -> Sequence[int]:
    """Number of elements of the operands and the result."""
    size_bytes = ITEM_BYTES[_element(call)]
    return [count // size_bytes for _, count in call.spans()]


def _matmul(
    batch: int, m: int, n: int, k: int, element: str, tf32: bool
) -> Matmul | None:
    if element not in ITEM_BYTES:
        return None
    lhs, rhs, result = (
        BatchedMatrix(Pointer("argument", number), element, width, height * width)
        for number, (height, width) in enumerate(((m, k), (k, n), (m, n)))
    )
    sizes = batch, m, n, k
    return Matmul(sizes, lhs, rhs, result, tf32=tf32 and element == "f32")


def _convolution(
    batch: int, shape: ConvolutionShape, element: str, tf32: bool
) -> Convolution | None:
    shape.check()
    if element not in ITEM_BYTES:
        return None
    operands = (Pointer("argument", number) for number in range(3))
    is_rounded = tf32 and element == "f32"
    return Convolution(shape, batch, element, *operands, tf32=is_rounded)
