"""cuBLASLt matmul plans: descriptors and algorithm are prepared once, then launched often.

The library's matrices are column-major, those of launch plans row-major: it computes the
transposed matmul, ``C^T = B^T A^T``, with exchanged operands and unchanged memory.
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
from relax_mlir.runtime.cuda.matmul_descriptors import ITEM_BYTES, BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.shared_libraries import handle
from relax_mlir.runtime.cuda.virtual_memory import GrowableWorkspace

__all__ = ["CublasLtContext", "MatmulPlan"]

_HOPPER = 90
_MAX_BATCH = (1 << 31) - 1
_INTERNAL_ALIGNMENT = 256  # bytes, of the runtime's own allocations


class CublasLtContext:
    """Handle and workspace that all matmuls of a model share on the current device.

    Matmuls of a model run in order, so one workspace suffices.

    Args:
        workspace: of all libraries.

    Raises:
        DeviceError: the library is missing, or its initialisation fails.
        OutOfMemoryError: the workspace cannot be allocated.
    """

    def __init__(self, device: Device, workspace: GrowableWorkspace) -> None:
        self.library = cublaslt.library(device)
        self.handle = handle(self.library, device)
        # Source: cuBLAS, cublasSetWorkspace(), recommended sizes.
        size_bytes = (32 if device.compute_capability >= _HOPPER else 4) << 20
        self.workspace = workspace.at_least(size_bytes)


class MatmulPlan:
    """A prepared matmul, which needs only addresses and a stream.

    Args:
        matmul: with bound sizes, not empty.
        what: description for errors; kernel: index of the model's kernel call.

    Raises:
        DeviceError: the library does not support the matmul.
    """

    def __init__(
        self, context: CublasLtContext, matmul: Matmul, what: str, kernel: int
    ) -> None:
        self.kernel = kernel
        self._what = f"{what}: matmul of {'x'.join(map(str, matmul.sizes))}"
        self._matmul, self._context = matmul, context
        self._library: CublasLt = context.library
        self._resources = ExitStack()
        is_double = matmul.lhs.element == "f64"
        scalar = ctypes.c_double if is_double else ctypes.c_float
        self._one, self._zero = scalar(1), scalar(0)
        self._start: Callable[..., None] | None = None
        try:
            self._describe()
        except BaseException:
            with suppress(DeviceError):  # report the first error
                self.close()
            raise

    def _describe(self) -> None:
        matmul = self._matmul
        batch, m, n, k = matmul.sizes
        if batch > _MAX_BATCH:
            raise DeviceError(f"{self._what}: expected a batch of at most {_MAX_BATCH}")
        types = cublaslt.TYPES
        compute = cublaslt.COMPUTE_TF32 if matmul.tf32 else cublaslt.COMPUTE_F32
        scale = types["f32"]
        if matmul.lhs.element == "f64":
            compute, scale = cublaslt.COMPUTE_F64, types["f64"]
        self._operation = self._make("MatmulDesc", compute, scale)
        epilogue = cublaslt.EPILOGUE_RELU if matmul.activation == "relu" else 0
        if matmul.bias is not None:
            epilogue |= cublaslt.EPILOGUE_BIAS
            # A placeholder, whose alignment the heuristic takes into account.
            self._set_bias(_alignment(matmul.bias))
        if epilogue:
            self._set(cublaslt.EPILOGUE, c_int(epilogue))
        # The transposed matmul: `rhs` is A, and rows are the library's columns.
        self._set(cublaslt.TRANSPOSE_A, c_int(matmul.rhs.is_transposed))
        self._set(cublaslt.TRANSPOSE_B, c_int(matmul.lhs.is_transposed))
        shapes = (k, n), (m, k), (m, n)
        matrices = matmul.rhs, matmul.lhs, matmul.result
        self._layouts = [
            self._layout(matrix, shape, batch)
            for matrix, shape in zip(matrices, shapes, strict=True)
        ]
        self._algorithm = self._best_algorithm(matrices, batch)

    def _make(self, kind: str, *arguments: Any) -> int:  # Any: C values
        """Create a descriptor, destroyed by :meth:`close`."""
        name, what = f"cublasLt{kind}Create", self._what
        descriptor = self._library.make(name, *arguments, what=what)
        destroy = self._library.call, f"cublasLt{kind}Destroy", descriptor
        self._resources.callback(*destroy, what=what)
        return descriptor

    def _set(self, attribute: int, value: Any) -> None:  # Any: of ctypes
        self._library.set(
            "MatmulDesc", self._operation, attribute, value, what=self._what
        )

    def _set_bias(self, address: int) -> None:
        self._set(cublaslt.BIAS_POINTER, c_void_p(address))

    def _layout(self, matrix: BatchedMatrix, shape: tuple[int, int], batch: int) -> int:
        rows, columns, leading = matrix.memory_shape(*shape)
        element = cublaslt.TYPES[matrix.element]
        layout = self._make("MatrixLayout", element, columns, rows, leading)
        if batch > 1:
            for attribute, value in (
                (cublaslt.BATCH_COUNT, c_int(batch)),
                (cublaslt.BATCH_STEP, ctypes.c_int64(matrix.step)),
            ):
                kind = "MatrixLayout"
                self._library.set(kind, layout, attribute, value, what=self._what)
        return layout

    def _best_algorithm(
        self, matrices: Sequence[BatchedMatrix], batch: int
    ) -> Algorithm:
        """The algorithm that the library's heuristic ranks first."""
        library, kind, what = self._library, "MatmulPreference", self._what
        preference = library.make(f"cublasLt{kind}Create", what=what)
        try:
            most = ctypes.c_uint64(self._context.workspace.size_bytes)
            library.set(kind, preference, cublaslt.WORKSPACE_BYTES, most, what)
            schemes = ctypes.c_uint32(cublaslt.REDUCED_IN_COMPUTE_TYPE)
            library.set(kind, preference, cublaslt.REDUCTION_SCHEMES, schemes, what)
            a, b, d = (_alignment_of(matrix, batch) for matrix in matrices)
            for attribute, least in zip(cublaslt.ALIGNMENTS, (a, b, d, d), strict=True):
                value = ctypes.c_uint32(least)
                library.set(kind, preference, attribute, value, what)
            algorithm, count = Algorithm(), c_int()
            outputs = preference, 1, byref(algorithm), byref(count)
            layouts = (*self._layouts, self._layouts[-1])
            start = self._context.handle, self._operation
            name = "cublasLtMatmulAlgoGetHeuristic"
            library.call(name, *start, *layouts, *outputs, what=what)
        finally:
            library.call(f"cublasLt{kind}Destroy", preference, what=what)
        if not count.value or algorithm.state:
            raise DeviceError(
                f"{what}: cuBLASLt {library.version} has no algorithm for it. Hint: "
                'compile the model with `library="never"`'
            )
        return algorithm

    def point(self, address: Callable[[Pointer], int]) -> None:
        """Bind the addresses of the operands.

        Args:
            address: resolves a pointer.
        """
        matmul, (a, b, d) = self._matmul, self._layouts
        if matmul.bias is not None:
            self._set_bias(address(matmul.bias))
        result = address(matmul.result.pointer)
        self._start = partial(
            self._library.call,
            "cublasLtMatmul",
            *(self._context.handle, self._operation, byref(self._one)),
            *(address(matmul.rhs.pointer), a, address(matmul.lhs.pointer), b),
            *(byref(self._zero), result, d, result, d),
            byref(self._algorithm),
            self._context.workspace.address,
            self._context.workspace.size_bytes,
            what=self._what,
        )

    def start(self, stream: int) -> None:
        """Enqueue the matmul on a stream; addresses must be bound.

        Raises:
            DeviceError: the library reports an error.
        """
        assert self._start is not None
        self._start(stream)

    def close(self) -> None:
        """Destroy the descriptors."""
        self._resources.close()


def _alignment(pointer: Pointer) -> int:
    """Guaranteed alignment of an address, in bytes."""
    is_external = pointer.base in ("input", "output")
    base = ALIGNMENT if is_external else _INTERNAL_ALIGNMENT
    return math.gcd(base, pointer.offset_bytes)


def _alignment_of(matrix: BatchedMatrix, batch: int) -> int:
    """Guaranteed alignment of all matrices of a batch, in bytes."""
    step_bytes = matrix.step * ITEM_BYTES[matrix.element] if batch > 1 else 0
    return math.gcd(_alignment(matrix.pointer), step_bytes)
