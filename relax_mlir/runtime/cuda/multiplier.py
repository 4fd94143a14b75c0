"""Products of matrices by cuBLASLt: prepared once, then started again and again.

The library's matrices lie by columns, ours by rows: what it computes is the transpose of a
product, of which the factors are exchanged and as they lie.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from ctypes import byref, c_int, c_void_p
from functools import partial
from typing import Any

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cublaslt
from relax_mlir.runtime.cuda.arrays import ALIGNMENT
from relax_mlir.runtime.cuda.cublaslt import Algorithm, CublasLt
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.growing_memory import GrowingMemory
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.products import ITEM_BYTES, Matrix, Product
from relax_mlir.runtime.cuda.shared_libraries import handle

__all__ = ["Multiplier", "PreparedProduct"]

_HOPPER = 90
_MOST_PRODUCTS = (1 << 31) - 1  # of a batch
_OWN_ALIGNMENT = 256  # bytes, of memory that is not the caller's


class Multiplier:
    """What all products of a model share on a device, which is current.

    They come one after the other, and use the same workspace.

    Args:
        workspace: of all libraries.

    Raises:
        DeviceError: the library is not there, or does not start.
        OutOfMemoryError: there is no memory for its workspace.
    """

    def __init__(self, device: Device, workspace: GrowingMemory) -> None:
        self.library = cublaslt.library(device)
        self.handle = handle(self.library, device)
        # Source: cuBLAS, cublasSetWorkspace(), recommended sizes.
        size_bytes = (32 if device.compute_capability >= _HOPPER else 4) << 20
        self.workspace = workspace.at_least(size_bytes)


class PreparedProduct:
    """A product that needs nothing but addresses and a stream.

    Args:
        product: when sizes are known, and is not empty.
        what: it is, for errors; kernel: which of those that the model names.

    Raises:
        DeviceError: the library does not compute it.
    """

    def __init__(
        self, multiplier: Multiplier, product: Product, what: str, kernel: int
    ) -> None:
        self.kernel = kernel
        self._what = f"{what}: product of {'x'.join(map(str, product.sizes))} terms"
        self._product, self._multiplier = product, multiplier
        self._library: CublasLt = multiplier.library
        self._made = ExitStack()
        is_double = product.lhs.element == "f64"
        scalar = ctypes.c_double if is_double else ctypes.c_float
        self._one, self._zero = scalar(1), scalar(0)
        self._start: Callable[..., None] | None = None
        try:
            self._describe()
        except BaseException:
            with suppress(DeviceError):  # the first error is the one to tell
                self.close()
            raise

    def _describe(self) -> None:
        product = self._product
        batch, rows, columns, terms = product.sizes
        if batch > _MOST_PRODUCTS:
            raise DeviceError(f"{self._what}: a batch has at most {_MOST_PRODUCTS}")
        types = cublaslt.TYPES
        compute = cublaslt.COMPUTE_TF32 if product.tf32 else cublaslt.COMPUTE_F32
        scale = types["f32"]
        if product.lhs.element == "f64":
            compute, scale = cublaslt.COMPUTE_F64, types["f64"]
        self._operation = self._make("MatmulDesc", compute, scale)
        epilogue = cublaslt.EPILOGUE_RELU if product.activation == "relu" else 0
        if product.bias is not None:
            epilogue |= cublaslt.EPILOGUE_BIAS
            # Of no array yet: the library looks at its alignment.
            self._set_bias(_alignment(product.bias))
        if epilogue:
            self._set(cublaslt.EPILOGUE, c_int(epilogue))
        # The transpose: `rhs` comes first, and rows are what lies side by side.
        self._set(cublaslt.TURN_A, c_int(product.rhs.is_turned))
        self._set(cublaslt.TURN_B, c_int(product.lhs.is_turned))
        shapes = (terms, columns), (rows, terms), (rows, columns)
        matrices = product.rhs, product.lhs, product.result
        self._layouts = [
            self._layout(matrix, shape, batch)
            for matrix, shape in zip(matrices, shapes, strict=True)
        ]
        self._algorithm = self._found(matrices, batch)

    def _make(self, kind: str, *arguments: Any) -> int:  # Any: C values
        """A descriptor, destroyed at the end."""
        made = self._library.make(f"cublasLt{kind}Create", *arguments, what=self._what)
        destroy = self._library.call
        self._made.callback(destroy, f"cublasLt{kind}Destroy", made, what=self._what)
        return made

    def _set(self, attribute: int, value: Any) -> None:  # Any: of ctypes
        self._library.set(
            "MatmulDesc", self._operation, attribute, value, what=self._what
        )

    def _set_bias(self, address: int) -> None:
        self._set(cublaslt.BIAS_POINTER, c_void_p(address))

    def _layout(self, matrix: Matrix, shape: tuple[int, int], batch: int) -> int:
        rows, columns, leading = matrix.lying(*shape)
        element = cublaslt.TYPES[matrix.element]
        made = self._make("MatrixLayout", element, columns, rows, leading)
        if batch > 1:
            for attribute, value in (
                (cublaslt.BATCH_COUNT, c_int(batch)),
                (cublaslt.BATCH_STEP, ctypes.c_int64(matrix.step)),
            ):
                kind = "MatrixLayout"
                self._library.set(kind, made, attribute, value, what=self._what)
        return made

    def _found(self, matrices: Sequence[Matrix], batch: int) -> Algorithm:
        """The algorithm that the library expects to be the fastest."""
        library, kind, what = self._library, "MatmulPreference", self._what
        preference = library.make(f"cublasLt{kind}Create", what=what)
        try:
            most = ctypes.c_uint64(self._multiplier.workspace.size_bytes)
            library.set(kind, preference, cublaslt.WORKSPACE_BYTES, most, what)
            schemes = ctypes.c_uint32(cublaslt.REDUCED_IN_COMPUTE_TYPE)
            library.set(kind, preference, cublaslt.REDUCTION_SCHEMES, schemes, what)
            a, b, d = (_alignment_of(matrix, batch) for matrix in matrices)
            for attribute, least in zip(cublaslt.ALIGNMENTS, (a, b, d, d), strict=True):
                value = ctypes.c_uint32(least)
                library.set(kind, preference, attribute, value, what)
            found, count = Algorithm(), c_int()
            ends = preference, 1, byref(found), byref(count)
            layouts = (*self._layouts, self._layouts[-1])
            start = self._multiplier.handle, self._operation
            name = "cublasLtMatmulAlgoGetHeuristic"
            library.call(name, *start, *layouts, *ends, what=what)
        finally:
            library.call(f"cublasLt{kind}Destroy", preference, what=what)
        if not count.value or found.state:
            raise DeviceError(
                f"{what}: cuBLASLt {library.version} has no algorithm for it. Hint: "
                'compile the model with `library="never"`'
            )
        return found

    def point(self, address: Callable[[Pointer], int]) -> None:
        """Say where its arrays are.

        Args:
            address: of a pointer.
        """
        product, (a, b, d) = self._product, self._layouts
        if product.bias is not None:
            self._set_bias(address(product.bias))
        result = address(product.result.pointer)
        self._start = partial(
            self._library.call,
            "cublasLtMatmul",
            *(self._multiplier.handle, self._operation, byref(self._one)),
            *(address(product.rhs.pointer), a, address(product.lhs.pointer), b),
            *(byref(self._zero), result, d, result, d),
            byref(self._algorithm),
            self._multiplier.workspace.address,
            self._multiplier.workspace.size_bytes,
            what=self._what,
        )

    def start(self, stream: int) -> None:
        """Put it on a stream, when it has been told where its arrays are.

        Raises:
            DeviceError: the library refuses it.
        """
        assert self._start is not None
        self._start(stream)

    def close(self) -> None:
        """Give its descriptors back."""
        self._made.close()


def _alignment(pointer: Pointer) -> int:
    """The bytes that an address is surely a multiple of."""
    is_given = pointer.base in ("input", "output")
    return math.gcd(ALIGNMENT if is_given else _OWN_ALIGNMENT, pointer.offset_bytes)


def _alignment_of(matrix: Matrix, batch: int) -> int:
    """The same of the first elements of all matrices of a batch."""
    step_bytes = matrix.step * ITEM_BYTES[matrix.element] if batch > 1 else 0
    return math.gcd(_alignment(matrix.pointer), step_bytes)
